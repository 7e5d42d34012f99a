"""Texts of labels, such as their names or descriptions, as extra examples."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from scipy import sparse

from rembrandt.data.arrays import move_columns
from rembrandt.data.dataset import Dataset
from rembrandt.data.labels import LabelIndex, Title
from rembrandt.errors import DataError


def with_label_texts(data: Dataset, texts: Mapping[str, Title]) -> Dataset:
    """Add an example for each label that has a text: the text, with that label alone.

    Labels that no example has get their only example in this way, and can be predicted.

    Parameters
    ----------
    data : Dataset
        Examples of texts.
    texts : mapping of str to str, or to tuple (str, str)
        Texts by label, or names and descriptions, which are joined.

    Returns
    -------
    Dataset
        The examples, followed by those of the labels.
    """
    if data.texts is None or data.vectors is not None:
        raise DataError(
            "texts of labels need examples that are texts, without vectors", parameter="label_text"
        )
    index = LabelIndex(data.label_names)
    index.add(texts)
    names, position = index.in_order()
    own = move_columns(data.Y, position[: data.n_labels], len(names))
    columns = position[index.columns(texts)]
    ones = np.ones(len(columns), np.float32)
    more = sparse.csr_array(
        (ones, columns, np.arange(len(columns) + 1)), shape=(len(columns), len(names))
    )
    joined = Dataset.build(
        sparse.csr_array(sparse.vstack([own, more], format="csr")),
        texts=[
            *data.texts,
            *(text if isinstance(text, str) else ". ".join(text) for text in texts.values()),
        ],
        label_names=names,
        task=data.task,
        weights=None if data.weights is None else np.append(data.weights, ones),
        notes=data.notes,
        ids=None if data.ids is None else [*data.ids, *texts],
    )
    return replace(joined, label_titles=data.label_titles)
