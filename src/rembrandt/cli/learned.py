"""What a model has learned from updates and corrections, so that an update can be repeated.

The record is kept with a model. It has numbers that stand for the examples, and no text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rembrandt.errors import StorageError, counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rembrandt.data import Dataset
    from rembrandt.data.corrections import Correction

NAME = "learned"  # in the JSON that commands keep with a model


@dataclass
class Learned:
    """Answers by text, and whole files of other examples."""

    answers: dict[str, str] = field(default_factory=dict)  # the number of a text → of its labels
    files: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, extra: dict[str, Any]) -> Learned:
        """Return the record of a model; an empty one if it has none."""
        facts = extra.get(NAME, {})
        try:
            pairs = facts["answers"].items()
            numbers = facts["files"]
            answers = {str(text): str(labels) for text, labels in pairs}
            files = [str(number) for number in numbers]
        except KeyError:
            return cls()
        except (AttributeError, TypeError) as error:
            message = "the record of what the model has learned cannot be read; fit it again"
            raise StorageError(message) from error
        return cls(answers, files)

    def to_json(self) -> dict[str, Any]:
        return {
            "answers": self.answers,
            "files": self.files,
        }

    def add_answers(self, corrections: list[Correction]) -> None:
        """Record corrections that a fit has learned."""
        import numpy as np

        texts = []
        labels: list[str] = []
        counts = []
        for correction in corrections:
            texts.append(correction.text)
            labels.extend(correction.labels)
            counts.append(len(correction.labels))
        starts = np.zeros(len(counts) + 1, dtype=np.int64)
        np.cumsum(counts, dtype=np.int64, out=starts[1:])
        text_hashes = _hashes(texts)
        label_hashes = _hashes(labels)
        label_sums = _label_sums(label_hashes, starts)
        self.answers |= _answers(text_hashes, label_sums)


@dataclass(frozen=True)
class NewExamples:
    """Examples that a model has not learned, what is said about the others, and the record after
    learning these.
    """

    data: Dataset
    sentences: list[str]
    after: Learned


def new_examples(data: Dataset, file: str, are_answers: bool, learned: Learned) -> NewExamples:
    """Leave out what a model has learned: answers one by one, other examples all or none.

    An answer to a text counts once, however often its file is read. Other examples may occur more
    than once, so that only a file with the same examples is taken for a repetition. Examples on
    disk are not compared.
    """
    import numpy as np

    if data.texts is None:
        features = _feature_hashes(data)
        return _new_file(data, file, features, learned)
    texts = _hashes(data.texts)
    if not are_answers:
        return _new_file(data, file, texts, learned)
    labels_of_rows = _labels_of_rows(data)
    answers = _answers(texts, labels_of_rows)
    new_rows = []
    n_learned = 0
    n_changed = 0
    for row, (text, labels) in enumerate(answers.items()):
        before = learned.answers.get(text)
        if before == labels:
            n_learned += 1
            continue
        new_rows.append(row)
        if before is not None:
            n_changed += 1
    sentences = []
    if n_learned:
        n_answers = counted(n_learned, "answer")
        sentences.append(
            f"Left out, because the model has learned them before: {n_answers} of {file}."
        )
    if n_changed:
        n_answers = counted(n_changed, "answer")
        sentences.append(
            f"Changed since the model learned them: {n_answers} of {file}. An update adds the new "
            "ones and does not take the old ones back; fit --corrections does."
        )
    after = Learned(learned.answers | answers, learned.files)
    row_indices = np.array(new_rows, dtype=np.int64)
    new_data = data.rows(row_indices)
    return NewExamples(new_data, sentences, after)


def _new_file(
    data: Dataset, file: str, rows: NDArray[np.uint64] | None, learned: Learned
) -> NewExamples:
    """Return no examples if an update has learned the same ones, in any order."""
    import numpy as np

    if rows is None:
        return NewExamples(data, [], learned)
    # A sum does not depend on the order, and squares keep the labels with their row.
    labels = _labels_of_rows(data)
    squares = np.square(rows + np.uint64(3) * labels)
    total = squares.sum(dtype=np.uint64)
    number = _spelled(total)
    if number in learned.files:
        n_examples = counted(data.n_examples, "example")
        sentence = (
            f"Left out, because the model has learned them before: the {n_examples} of {file}."
        )
        no_rows = np.empty(0, dtype=np.int64)
        no_data = data.rows(no_rows)
        return NewExamples(no_data, [sentence], learned)
    files = [*learned.files, number]
    after = Learned(learned.answers, files)
    return NewExamples(data, [], after)


def are_answers(source: str, format: str | None) -> bool:
    """Return whether a file is read as one of corrections."""
    from rembrandt.data.corrections import is_corrections

    if format is not None:
        return format == "corrections"
    return is_corrections(Path(source))


def _answers(texts: NDArray[np.uint64], labels: NDArray[np.uint64]) -> dict[str, str]:
    pairs = zip(texts.tolist(), labels.tolist(), strict=True)
    return {_spelled(text): _spelled(of_labels) for text, of_labels in pairs}


def _spelled(number: Any) -> str:
    return f"{int(number):016x}"


def _hashes(strings: list[str]) -> NDArray[np.uint64]:
    from rembrandt.features.terms import hash_each

    return hash_each(strings)


def _labels_of_rows(data: Dataset) -> NDArray[np.uint64]:
    """Return a number for the labels of each row, in any order."""
    names = [str(label) for label in data.label_ids]
    hashes = _hashes(names)
    entry_hashes = hashes[data.Y.indices]
    return _label_sums(entry_hashes, data.Y.indptr)


def _label_sums(hashes: NDArray[np.uint64], starts: Any) -> NDArray[np.uint64]:
    import numpy as np

    sums = np.zeros(len(hashes) + 1, dtype=np.uint64)
    np.cumsum(hashes, out=sums[1:])  # beyond 64 bits it starts again at 0, and so do differences
    first = starts[:-1]
    stop = starts[1:]
    return np.asarray(sums[stop] - sums[first])


def _feature_hashes(data: Dataset) -> NDArray[np.uint64] | None:
    """Return a number for the features of each row; None for rows on disk."""
    from rembrandt.data.content import content_groups
    from rembrandt.data.stored import StoredRows

    if data.X is None or isinstance(data.X, StoredRows):
        return None
    vectors = []
    if data.vectors is not None:
        vectors.append(data.vectors)
    return content_groups(data.X, None, vectors)
