"""Predictions for a batch of requests: requests for the same model and labels are computed
together.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data.views import as_views
from rembrandt.estimators.requests import checked_hierarchy, prediction_model, rows_of
from rembrandt.explanations.explain import explain_labels
from rembrandt.predict import Request, answer, assigned
from rembrandt.probabilities import is_blank
from rembrandt.serve.errors import ANTICIPATED, RequestError
from rembrandt.serve.limits import Limits
from rembrandt.serve.registry import ServedModel
from rembrandt.serve.schemas import PredictRequest

_MAX_JOB_LABELS = 1000  # of all texts of one job; many labels take longer than many texts
_MAX_QUICK_LABELS = 100  # of all texts of a quick job, which takes some hundredths of a second

Predictions = list[list[dict[str, Any]]]  # for each text its labels, best first


class Client(Protocol):
    """Who has sent a request."""

    def has_left(self) -> bool:
        """Return whether nobody waits for the answer."""


@dataclass(frozen=True)
class PredictJob:
    """A request and the model it is for."""

    served: ServedModel
    request: PredictRequest
    client: Client | None = None  # None: one that never leaves

    @property
    def n_rows(self) -> int:
        return len(self.request.texts or self.request.vectors)

    @property
    def is_slow(self) -> bool:
        """Whether requests for few labels of few texts should not wait behind many such jobs."""
        return self.request.explain or self.n_rows * self.request.top_k > _MAX_QUICK_LABELS

    def is_wanted(self) -> bool:
        """Return whether somebody still waits for the result."""
        return self.client is None or not self.client.has_left()

    def parts(self, batch: int) -> list["PredictJob"]:
        """Split a request for many labels, so that others do not wait for all of it; ``batch`` is
        the most texts.
        """
        size = 1
        if not self.request.explain:
            size = max(1, min(batch, _MAX_JOB_LABELS // self.request.top_k))
        if self.n_rows <= size:
            return [self]
        field = "vectors"
        if self.request.texts:
            field = "texts"
        rows = getattr(self.request, field)
        jobs = []
        for start in range(0, len(rows), size):
            block = {field: rows[start : start + size]}
            jobs.append(replace(self, request=self.request.model_copy(update=block)))
        return jobs

    def check(self, limits: Limits) -> None:
        """Raise an error if the request exceeds a limit."""
        k = self.request.top_k
        lengths = [len(text) for text in self.request.texts or ()]
        checks = [
            (self.n_rows, limits.texts, "texts in one request"),
            (max(lengths, default=0), limits.characters, "characters in one text"),
            (k, limits.labels, "labels for each text"),
        ]
        if self.request.explain:
            checks += [
                (self.n_rows * k, limits.explained, "labels to explain in one request"),
                (
                    k * sum(lengths),
                    limits.explained_characters,
                    "characters to explain, counted for each label",
                ),
            ]
        for value, limit, what in checks:
            if value > limit:
                raise RequestError(413, f"{value:,} {what}; the limit is {limit:,}")


def predict(jobs: Sequence[PredictJob]) -> list[Predictions | Exception]:
    """Return the predictions of every job; an exception for a job that fails.

    Jobs with the same model and labels to choose from share the scoring of their rows. A
    probability depends on the row and the label alone, so no job changes the answer of another.
    """
    groups: dict[Any, list[int]] = defaultdict(list)
    for i, job in enumerate(jobs):
        request = job.request
        include = None if request.include is None else tuple(request.include)
        # All labels are scored for many of them; a request for few does not wait for that.
        magnitude = request.top_k.bit_length() // 2
        group = (
            id(job.served),
            bool(request.texts),
            include,
            tuple(request.exclude),
            request.hierarchy,
            request.branches,
            magnitude,
        )
        groups[group].append(i)
    results: list[Predictions | Exception] = [[] for _ in jobs]
    for members in groups.values():
        predictions = _predict_group([jobs[i] for i in members])
        for i, result in zip(members, predictions, strict=True):
            results[i] = result
    return results


def _predict_group(jobs: list[PredictJob]) -> Sequence[Predictions | Exception]:
    """Predict together; if that fails, one by one, so that only the jobs that cause the error
    fail.
    """
    try:
        return _predict_together(jobs)
    except ANTICIPATED as error:
        if len(jobs) == 1:
            # The frames of a traceback hold the request, and their results hold the error.
            return [error.with_traceback(None)]
    except Exception as error:  # noqa: BLE001 - it is raised where the job was submitted
        if len(jobs) == 1:
            return [error]
    results: list[Predictions | Exception] = []
    for job in jobs:
        results += _predict_group([job])
    return results


def _predict_together(jobs: list[PredictJob]) -> list[Predictions]:
    """Predict for jobs with the same model, kind of input, and labels to include and exclude."""
    served = jobs[0].served
    rows = _rows(jobs)
    model = prediction_model(served.classifier)
    k = max(job.request.top_k for job in jobs)
    mode = checked_hierarchy(model, jobs[0].request.hierarchy)
    if mode != "flat" and model.hierarchy is None:
        raise RequestError(422, f"model {served.name!r} has no parents of labels")
    allowed = _allowed(served, jobs[0].request, mode == "closed")
    with np.errstate(over="ignore", invalid="ignore"):  # checked below
        ranked = answer(model, Request(rows, k, allowed=allowed, hierarchy=mode))
    is_empty = (ranked.labels < 0).all(axis=1)
    if (is_empty & ~is_blank(model, rows)).any():
        raise RequestError(
            422,
            "a probability is not finite: the values of this vector are too large for the model",
        )
    is_assigned = assigned(served.classifier.model_, ranked.labels, ranked.probabilities)
    results = []
    start = 0
    for job in jobs:
        stop = start + job.n_rows
        block = slice(start, stop)
        job_rows = rows
        if len(jobs) > 1 and job.request.explain:
            job_rows = rows[block]  # which takes as long as all the rest of a quick job
        documents = _documents(
            job, job_rows, ranked.labels[block], ranked.probabilities[block], is_assigned[block]
        )
        results.append(documents)
        start = stop
    return results


def _documents(
    job: PredictJob,
    rows: Any,
    labels: NDArray[np.int64],
    probabilities: NDArray[Any],
    is_assigned: NDArray[np.bool_],
) -> Predictions:
    """Return the predictions of one job as JSON; the ``rows`` matter for explanations only."""
    request = job.request
    index = job.served.labels.nodes
    is_kept = labels >= 0
    if request.min_probability is not None:
        is_kept &= probabilities >= request.min_probability
    is_kept[:, request.top_k :] = False
    documents: Predictions = []
    for row, is_kept_in_row in enumerate(is_kept):
        columns = labels[row, is_kept_in_row]
        kept_probabilities = probabilities[row, is_kept_in_row].tolist()
        kept_assigned = is_assigned[row, is_kept_in_row].tolist()
        predictions = []
        for column, probability, is_above in zip(
            columns.tolist(), kept_probabilities, kept_assigned, strict=True
        ):
            facts = {"probability": probability, "assigned": is_above}
            predictions.append(index.named(column) | facts)
        if request.explain and predictions:
            _explain(job, row, rows[[row]], columns, predictions)
        documents.append(predictions)
    return documents


def _explain(
    job: PredictJob,
    row: int,
    features: Any,
    columns: NDArray[np.int64],
    predictions: list[dict[str, Any]],
) -> None:
    """Add an explanation to every label of a row; groups have none."""
    served = job.served
    n_labels = len(served.labels.index)
    is_label = columns < n_labels
    predictions = [predictions[i] for i in np.flatnonzero(is_label).tolist()]
    columns = columns[is_label]
    text = None
    if job.request.texts:
        text = job.request.texts[row]
    model = served.classifier.model_
    explanations = explain_labels(model, as_views(features), columns, served.feature_names, text)
    for prediction, explanation in zip(predictions, explanations, strict=True):
        document = explanation.document() | {"segments": explanation.segments()}
        del document["label"]
        prediction |= served.labels.index.detailed(explanation.column)
        prediction["explanation"] = document


def _rows(jobs: list[PredictJob]) -> Any:
    """Return the features of all texts, or of all vectors."""
    served = jobs[0].served
    if not jobs[0].request.texts:
        if served.classifier.model_.reads_texts:
            raise RequestError(
                422, f"model {served.name!r} reads the texts themselves; send texts, not vectors"
            )
        return _matrix(served, [vector for job in jobs for vector in job.request.vectors])
    if not served.takes_texts:
        raise RequestError(
            422, f"model {served.name!r} was fitted to features, not to texts; send vectors"
        )
    return rows_of(served.classifier, [text for job in jobs for text in job.request.texts])


def _matrix(served: ServedModel, vectors: list[dict[str, float]]) -> sparse.csr_array:
    """Return vectors as a sparse matrix; names that are not in the training data are ignored, like
    unknown words.
    """
    keys = [key for vector in vectors for key in vector]
    if served.features is None:
        columns = np.array([_number(served, key) for key in keys], dtype=np.int64)
    else:
        columns = served.features.columns(keys)
    with np.errstate(over="ignore"):
        values = np.array(
            [value for vector in vectors for value in vector.values()], dtype=np.float32
        )
    if not np.isfinite(values).all():
        raise RequestError(422, "a value of this vector is too large for single precision")
    rows = np.repeat(np.arange(len(vectors)), [len(vector) for vector in vectors])
    is_feature = columns >= 0
    shape = (len(vectors), served.n_features)
    positions = (rows[is_feature], columns[is_feature])
    return sparse.csr_array((values[is_feature], positions), shape=shape)


def _number(served: ServedModel, key: str) -> int:
    if key.isascii() and key.isdecimal() and len(key) < 19 and int(key) < served.n_features:
        return int(key)
    last = served.n_features - 1
    raise RequestError(
        422, f"model {served.name!r} has no feature {key!r}: use numbers from 0 to {last}"
    )


def _allowed(
    served: ServedModel, request: PredictRequest, with_groups: bool
) -> NDArray[np.int64] | None:
    """Return the columns to choose from, None for all; those of groups, too, if they count."""
    if request.branches and served.classifier.model_.hierarchy is None:
        raise RequestError(422, f"model {served.name!r} has no parents of labels")
    if request.include is None and not request.exclude:
        return None
    n_labels = len(served.labels.index)
    allowed = np.full(len(served.labels.nodes), request.include is None)
    allowed[_named(served, request.include or [], request.branches, with_groups)] = True
    allowed[_named(served, request.exclude, request.branches, with_groups)] = False
    if not with_groups:
        allowed[n_labels:] = False
    if not allowed.any():
        raise RequestError(422, "no label is left: all included labels are excluded")
    return np.flatnonzero(allowed)


def _named(
    served: ServedModel, labels: list[str], branches: bool, with_groups: bool
) -> NDArray[np.int64]:
    """Return the columns of labels, or of their branches."""
    nodes = [served.find(label, branches or with_groups) for label in labels]
    hierarchy = served.classifier.model_.hierarchy
    if branches and hierarchy is not None:
        return hierarchy.branch(nodes)
    return np.array(nodes, dtype=np.int64)
