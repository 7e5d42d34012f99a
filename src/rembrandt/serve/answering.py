"""A batch of requests to their answers: as few products as there are kinds of request."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.explore.explain import explain_rows, words_of
from rembrandt.serve.refusals import Refusal
from rembrandt.serve.registry import Served

Array = NDArray[Any]
Answer = list[list[dict[str, Any]]]  # for each text its labels, best first

_FEW = 64  # excluded labels that are cheaper to ask for and drop than to leave out of the product


@dataclass(frozen=True)
class Question:
    """What one request asks of a model."""

    served: Served
    texts: Sequence[str] = ()
    vectors: Sequence[dict[str, float]] = ()
    k: int = 5
    threshold: float | None = None
    include: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    probabilities: bool = False
    explain: bool = False

    @property
    def rows(self) -> int:
        return len(self.texts) + len(self.vectors)


def answer(questions: Sequence[Question]) -> list[Answer | Exception]:
    """The answers in order; one that cannot be given is an exception in its place."""
    groups: dict[Any, list[int]] = defaultdict(list)
    for i, question in enumerate(questions):
        labels = (None if question.include is None else tuple(question.include), tuple(question.exclude))
        groups[id(question.served), bool(question.texts), labels].append(i)
    answers: list[Answer | Exception] = [[] for _ in questions]
    for members in groups.values():
        for i, found in zip(members, _answer_alike([questions[i] for i in members]), strict=True):
            answers[i] = found
    return answers


def _answer_alike(questions: list[Question]) -> list[Answer | Exception]:
    """Answer questions to the same model about the same labels by one product."""
    try:
        return _product(questions)
    except Exception as error:  # noqa: BLE001 - it is raised where the question was asked
        if len(questions) == 1:
            return [error]
        return [each for question in questions for each in _answer_alike([question])]  # the others are not to blame


def _product(questions: list[Question]) -> list[Answer | Exception]:
    first = questions[0]
    served, model = first.served, first.served.model
    rows = _rows(questions)
    excluded = {served.find(label) for label in first.exclude}
    allowed = _allowed(first, excluded)
    most = model.n_labels if allowed is None else len(allowed)
    k = min(max(question.k for question in questions) + (len(excluded) if allowed is None else 0), most)
    with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is refused below
        best, scores = model.top_k(rows, k, allowed)
    if (best[:, 0] < 0).any() or not np.isfinite(scores[best >= 0]).all():
        raise Refusal(422, "a score is not a finite number: the values of this vector are too large for the model")
    shares = model.probabilities_of(rows, best, scores) if any(q.probabilities for q in questions) else scores
    answers: list[Answer | Exception] = []
    start = 0
    for question in questions:
        own = slice(start, start := start + question.rows)
        kept = [
            [
                (column, value)
                for column, value in zip(columns, values, strict=True)
                if column >= 0
                and column not in excluded
                and (question.threshold is None or value >= question.threshold)
            ][: question.k]
            for columns, values in zip(
                best[own].tolist(), (shares if question.probabilities else scores)[own].tolist(), strict=True
            )
        ]
        answers.append(_with_names(question, kept, rows[own]))
    return answers


def _with_names(question: Question, kept: list[list[tuple[int, float]]], rows: Any) -> Answer:
    labels = question.served.labels
    answer: Answer = [
        [{"label": labels.ids[column], "name": labels.names[column], "score": score} for column, score in row]
        for row in kept
    ]
    if question.explain:
        for i, row in enumerate(kept):
            if row:
                _explain(question, i, rows[[i]], [column for column, _ in row], answer[i])
    return answer


def _explain(question: Question, i: int, row: Any, columns: list[int], answer: list[dict[str, Any]]) -> None:
    """Add to each label of text ``i`` why it got its score."""
    words = words_of(question.served.classifier, [question.texts[i]] if question.texts else row)
    explanation = explain_rows(question.served.model, row, np.array([columns]), words)
    for place, one in enumerate(answer):
        document = explanation.document(0, place)
        one["explanation"] = {name: document[name] for name in ("score", "base", "words", "rest")} | {
            "segments": [list(segment) for segment in explanation.highlights(0, place)]
        }


def _rows(questions: list[Question]) -> sparse.csr_array:
    """The features of all texts, or all vectors."""
    served = questions[0].served
    if not questions[0].texts:
        return _matrix(served, [vector for question in questions for vector in question.vectors])
    if served.text is None:
        raise Refusal(422, f"model {served.name!r} was fitted on features, not on texts; send vectors")
    return served.text.transform([text for question in questions for text in question.texts])


def _matrix(served: Served, vectors: list[dict[str, float]]) -> sparse.csr_array:
    """Vectors as rows; names that training never saw are passed over, as unknown words of a text are."""
    named, d = served.features, served.model.n_features
    rows, columns, values = [], [], []
    for row, vector in enumerate(vectors):
        for key, value in vector.items():
            column = _number(served, key, d) if named is None else named.get(key, -1)
            if column >= 0:
                rows.append(row)
                columns.append(column)
                values.append(value)
    with np.errstate(over="ignore"):
        data = np.array(values, dtype=np.float32)
    if not np.isfinite(data).all():
        raise Refusal(422, "a value of this vector is too large for single precision")
    return sparse.csr_array((data, (rows, columns)), shape=(len(vectors), d))


def _number(served: Served, key: str, d: int) -> int:
    if key.isascii() and key.isdecimal() and len(key) < 19 and int(key) < d:
        return int(key)
    raise Refusal(422, f"{key!r} is no feature of model {served.name!r}: give their numbers, from 0 to {d - 1}")


def _allowed(question: Question, excluded: set[int]) -> NDArray[np.int64] | None:
    """The columns to choose from, where that is not simply all of them; rarely is it worth a copy of the weights."""
    model = question.served.model
    if question.include is None and (not excluded or len(excluded) <= _FEW):
        return None
    chosen = np.zeros(model.n_labels, dtype=bool)
    if question.include is None:
        chosen[:] = True
    else:
        chosen[[question.served.find(label) for label in question.include]] = True
    chosen[list(excluded)] = False
    if not chosen.any():
        raise Refusal(422, "no label is left to choose from: every one included is excluded too")
    return np.flatnonzero(chosen)
