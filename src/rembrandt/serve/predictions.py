"""Predictions for a batch of requests: requests for the same model and labels are computed together."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.explore.explain import explain_columns
from rembrandt.serve.errors import RequestError
from rembrandt.serve.limits import Limits
from rembrandt.serve.registry import ServedModel
from rembrandt.serve.schemas import PredictRequest

Predictions = list[list[dict[str, Any]]]  # for each text its labels, best first

_FEW = 64  # excluded labels that are removed from a longer list; for more, the other labels are passed to the model


@dataclass(frozen=True)
class PredictJob:
    """A request and the model it is for."""

    served: ServedModel
    request: PredictRequest

    @property
    def n_rows(self) -> int:
        return len(self.request.texts or self.request.vectors)

    def check(self, limits: Limits) -> None:
        """Raise an error if the request exceeds a limit."""
        k, lengths = self.request.top_k, [len(text) for text in self.request.texts or ()]
        longest, labels, characters = max(lengths, default=0), self.n_rows * k, k * sum(lengths)
        if self.n_rows > limits.texts:
            raise RequestError(413, f"the request has {self.n_rows} texts; send at most {limits.texts} per request")
        if longest > limits.characters:
            raise RequestError(413, f"a text has {longest:,} characters; the limit is {limits.characters:,}")
        if k > limits.labels:
            raise RequestError(413, f"{k} labels for each text; the limit is {limits.labels}")
        if self.request.explain and (labels > limits.explained or characters > limits.explained_characters):
            raise RequestError(
                413,
                f"{labels} labels to explain over {characters:,} characters; the limits are {limits.explained} and "
                f"{limits.explained_characters:,}: send fewer texts, or a smaller top_k",
            )


def predict(jobs: Sequence[PredictJob]) -> list[Predictions | Exception]:
    """Return the predictions of every job; an exception for a job that fails."""
    groups: dict[Any, list[int]] = defaultdict(list)
    for i, job in enumerate(jobs):
        request = job.request
        labels = (None if request.include is None else tuple(request.include), tuple(request.exclude))
        groups[id(job.served), bool(request.texts), labels].append(i)
    results: list[Predictions | Exception] = [[] for _ in jobs]
    for members in groups.values():
        for i, found in zip(members, _predict_group([jobs[i] for i in members]), strict=True):
            results[i] = found
    return results


def _predict_group(jobs: list[PredictJob]) -> Sequence[Predictions | Exception]:
    """Predict together; if that fails, one by one, so that only the jobs that cause the error fail."""
    try:
        return _predict_together(jobs)
    except Exception as error:  # noqa: BLE001 - it is raised where the job was submitted
        if len(jobs) == 1:
            return [error]
        return [found for job in jobs for found in _predict_group([job])]


def _predict_together(jobs: list[PredictJob]) -> list[Predictions]:
    """Predict for jobs with the same model, kind of input, and labels to include and exclude."""
    served, request = jobs[0].served, jobs[0].request
    classifier, rows = served.classifier, _rows(jobs)
    excluded = {served.find(label) for label in request.exclude}
    allowed = _allowed(served, request, excluded)
    available, spare = (len(served.labels.ids), len(excluded)) if allowed is None else (len(allowed), 0)
    k = min(max(job.request.top_k for job in jobs) + spare, available)
    with np.errstate(over="ignore", invalid="ignore"):  # checked below
        wanted = any(job.request.probabilities for job in jobs)
        if wanted:
            columns, scores, probabilities = classifier.device_model().top_probabilities(rows, k, allowed)
        else:
            columns, scores = classifier.device_model().top_k(rows, k, allowed)
    if (columns[:, 0] < 0).any() or not np.isfinite(scores[columns >= 0]).all():
        raise RequestError(422, "a score is not finite: the values of this vector are too large for the model")
    results = []
    start = 0
    for job in jobs:
        own = slice(start, start := start + job.n_rows)
        values = (probabilities if job.request.probabilities else scores)[own]
        results.append(_documents(job, rows[own], columns[own], values, excluded))
    return results


def _documents(job: PredictJob, rows: Any, columns: Any, values: Any, excluded: set[int]) -> Predictions:
    """Return the predictions of one job as JSON."""
    request, labels = job.request, job.served.labels
    least = -np.inf if request.threshold is None else request.threshold
    documents: Predictions = []
    for i in range(len(columns)):
        pairs = zip(columns[i].tolist(), values[i].tolist(), strict=True)
        kept = [(c, value) for c, value in pairs if c >= 0 and c not in excluded and value >= least][: request.top_k]
        found = [{"label": labels.ids[c], "name": labels.names[c], "score": value} for c, value in kept]
        if request.explain and kept:
            text = request.texts[i] if request.texts else None
            chosen = np.array([column for column, _ in kept])
            explained = explain_columns(job.served.classifier, rows[[i]], chosen, job.served.feature_names, text)
            for one, explanation in zip(found, explained, strict=True):
                one["explanation"] = explanation.document() | {"segments": explanation.segments()}
                del one["explanation"]["label"]
        documents.append(found)
    return documents


def _rows(jobs: list[PredictJob]) -> Any:
    """Return the features of all texts, or of all vectors."""
    served, request = jobs[0].served, jobs[0].request
    if not request.texts:
        return _matrix(served, [vector for job in jobs for vector in job.request.vectors])
    if not served.takes_texts:
        raise RequestError(422, f"model {served.name!r} was fitted to features, not to texts; send vectors")
    return served.classifier.rows([text for job in jobs for text in job.request.texts])


def _matrix(served: ServedModel, vectors: list[dict[str, float]]) -> sparse.csr_array:
    """Return vectors as a sparse matrix; names that are not in the training data are ignored, like unknown words."""
    named = served.feature_columns
    rows, columns, values = [], [], []
    for row, vector in enumerate(vectors):
        for key, value in vector.items():
            column = _number(served, key) if named is None else named.get(key, -1)
            if column >= 0:
                rows.append(row)
                columns.append(column)
                values.append(value)
    with np.errstate(over="ignore"):
        data = np.array(values, dtype=np.float32)
    if not np.isfinite(data).all():
        raise RequestError(422, "a value of this vector is too large for single precision")
    return sparse.csr_array((data, (rows, columns)), shape=(len(vectors), served.n_features))


def _number(served: ServedModel, key: str) -> int:
    if key.isascii() and key.isdecimal() and len(key) < 19 and int(key) < served.n_features:
        return int(key)
    raise RequestError(
        422, f"model {served.name!r} has no feature {key!r}: use numbers from 0 to {served.n_features - 1}"
    )


def _allowed(served: ServedModel, request: PredictRequest, excluded: set[int]) -> NDArray[np.int64] | None:
    """Return the columns to choose from; None for all, which is faster."""
    if request.include is None and len(excluded) <= _FEW:
        return None
    allowed = np.full(len(served.labels.ids), request.include is None)
    allowed[[served.find(label) for label in request.include or ()]] = True
    allowed[list(excluded)] = False
    if not allowed.any():
        raise RequestError(422, "no label is left: all included labels are excluded")
    return np.flatnonzero(allowed)
