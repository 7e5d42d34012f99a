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
    index = LabelIndex(data.label_ids)
    index.add(texts)
    names, position = index.in_order()
    example_labels = move_columns(data.Y, position[: data.n_labels], len(names))

    columns = position[index.columns(texts)]
    ones = np.ones(len(columns), np.float32)
    starts = np.arange(len(columns) + 1)
    text_labels = sparse.csr_array((ones, columns, starts), shape=(len(columns), len(names)))
    Y = sparse.vstack([example_labels, text_labels], format="csr")

    weights = data.weights
    if weights is not None:
        weights = np.append(weights, ones)
    ids = data.ids
    if ids is not None:
        ids = [*ids, *texts]
    joined = Dataset.build(
        sparse.csr_array(Y),
        texts=[*data.texts, *map(_as_text, texts.values())],
        label_ids=names,
        task=data.task,
        weights=weights,
        notes=data.notes,
        ids=ids,
    )
    return replace(joined, label_names=data.label_names)


def _as_text(title: Title) -> str:
    """A name, or a name and a description as two sentences."""
    if isinstance(title, str):
        return title
    return ". ".join(title)
