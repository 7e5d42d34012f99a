"""One request, one answer: the labels of some rows with their probabilities.

Everything that predicts calls `answer` or `all_probabilities`. A request filters labels, weighs
them for the tail and cuts the ranking; it changes no probability (`probabilities.py`).

In a hierarchy of labels, the probability of a node is the largest of its own and of those of all
labels below it. That, too, depends on the row and the node alone.

Every unlisted label is less likely than the least likely listed one of the row, so all labels are
scored only for the rows whose answer may hold an unlisted label.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data.views import Views, as_views
from rembrandt.forks import cached_property
from rembrandt.linalg import Array
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.ranking import rank, top_k
from rembrandt.model.model import Model
from rembrandt.nodes import NodeSpace, closed_probabilities
from rembrandt.parts.protocol import SCORED_BLOCK_ROWS, Labels
from rembrandt.probabilities import (
    ListedLabels,
    is_blank,
    listed_labels,
    probabilities_of_all,
    with_unlisted,
)
from rembrandt.progress import Report, silent

BLOCK_SCORES = 1 << 22  # scores of all labels that are in memory at a time


@dataclass(frozen=True)
class Request:
    """What is asked of a model.

    Parameters
    ----------
    rows : Views or matrix of shape (n, d)
        The examples; a matrix stands for features without vectors beside them.
    k : int, optional
        Largest number of labels of a row; None for all that reach the threshold.
    threshold : float or ndarray of shape (n_labels,), default=0.0
        Smallest probability of a label that is returned.
    allowed : ndarray of columns, optional
        Return only these labels; ascending. With ``hierarchy="closed"`` numbers above those of
        labels stand for groups.
    tail : (float, float), optional
        Rank by probability × inverse propensity with these constants A and B.
    hierarchy : {"flat", "closed", "specific"}, default="flat"
        "closed": a label or group is at least as likely as each label below it, and comes before
        it. "specific": a label is left out where an allowed one below it is as likely, or reaches
        the threshold; that of the model where the request has none.
    """

    rows: Any
    k: int | None = None
    threshold: float | Array = 0.0
    allowed: Labels | None = None
    tail: tuple[float, float] | None = None
    hierarchy: str = "flat"


@dataclass(frozen=True)
class Answer:
    """Ranked labels of rows, best first, -1 after the last one."""

    labels: Labels  # n × m
    probabilities: NDArray[np.float32]  # 0 where there is no label
    weighted: Array | None = None  # probability × inverse propensity, if the request asks for it


def answer(model: Model, request: Request, report: Report = silent) -> Answer:
    """Return the ranked labels of the rows of a request.

    Parameters
    ----------
    model : Model
        A fitted model.
    request : Request
        Rows and what is asked for.
    report : callable, optional
        Called as ``report(stage, done, total)``.

    Returns
    -------
    Answer
        With as many columns as the longest row has labels. A text without a known word has none.
    """
    query = _query(model, request)
    views = as_views(request.rows)
    n = views.n
    blocks = []
    if query.n_wanted > 0:
        for rows in _row_blocks(model, n, SCORED_BLOCK_ROWS):
            report("predicting", rows.start, n)
            block = _answer_block(model, views[rows], query)
            blocks.append((rows, block))
        report("predicting", n, n)
    ranked = _assembled(blocks, n, query)
    if query.nodes is None:
        return ranked
    nodes = query.nodes.numbers(ranked.labels)
    return replace(ranked, labels=nodes)


def all_probabilities(
    model: Model,
    rows: Any,
    report: Report = silent,
    hierarchy: str = "flat",
) -> NDArray[np.float32]:
    """Return the probabilities of all labels, n × c; zeros for a text without a known word.

    With ``hierarchy="closed"`` those of a label are at least those of the labels below it.
    """
    views = as_views(rows)
    n = views.n
    max_rows = BLOCK_SCORES // model.n_labels
    blocks = [np.empty((0, model.n_labels), dtype=np.float32)]
    for block in _row_blocks(model, n, max_rows):
        report("predicting", block.start, n)
        P = probabilities_of_all(model, views[block])
        if hierarchy == "closed":
            P = closed_probabilities(model, P)
        blocks.append(P)
    report("predicting", n, n)
    return np.vstack(blocks)


def assigned(model: Model, labels: Labels, probabilities: Array) -> NDArray[np.bool_]:
    """Return which ranked labels (n × m) the model assigns: those that reach its threshold, or the
    first one of rows with one label each.
    """
    is_label = labels >= 0
    if model.multiclass:
        is_label[:, 1:] = False
        return is_label
    of_labels = np.broadcast_to(model.threshold, (model.n_labels,))
    n_groups = len(model.nodes) - model.n_labels
    of_groups = np.full(n_groups, of_labels.min())
    threshold = np.append(of_labels, of_groups)
    reaches_threshold = probabilities >= threshold[labels]
    return np.asarray(is_label & reaches_threshold)


def indicator(labels: Labels, n_labels: int) -> sparse.csr_array:
    """Return lists of labels, -1 after the last, as a 0/1 matrix."""
    is_label = labels >= 0
    columns = labels[is_label]
    ones = np.ones(len(columns), dtype=np.int8)
    ends = np.cumsum(is_label.sum(axis=1))
    indptr = np.concatenate([[0], ends])
    shape = (len(labels), n_labels)
    matrix = sparse.csr_array((ones, columns, indptr), shape=shape)
    matrix.sort_indices()
    return matrix


@dataclass(frozen=True)
class _Query:
    """A request as arrays over the labels of the model, or over the nodes of its hierarchy."""

    k: int | None
    columns: Labels  # that are allowed, ascending
    threshold: Array  # c
    worth: Array | None  # c
    nodes: NodeSpace | None = None  # where a hierarchy counts

    @cached_property
    def n_wanted(self) -> int:
        """Largest number of labels of a row."""
        n_allowed = len(self.columns)
        if self.k is None:
            return n_allowed
        return min(self.k, n_allowed)

    @cached_property
    def is_allowed(self) -> NDArray[np.bool_]:
        """Whether each label is allowed; one more entry, the last, stands for no label."""
        size = len(self.threshold) + 1
        is_allowed = np.zeros(size, dtype=np.bool_)
        is_allowed[self.columns] = True
        return is_allowed

    def weighted(self, probabilities: Array, labels: Labels) -> Array:
        """Return what the labels of these probabilities are ranked by."""
        if self.worth is None:
            return probabilities
        return probabilities * self.worth[labels]

    def ranked(self, labels: Labels, probabilities: Array) -> Answer:
        """Filter labels (n × m) of rows, rank them and cut the ranking."""
        reaches_threshold = probabilities >= self.threshold[labels]
        is_kept = self.is_allowed[labels] & reaches_threshold
        width = min(self.n_wanted, _largest_number(is_kept))
        # -1 and -inf sort behind every label.
        labels = np.where(is_kept, labels, -1)
        scores = self.weighted(probabilities, labels)
        scores = np.where(is_kept, scores, -np.inf)
        labels, scores = rank(labels, scores)
        labels = labels[:, :width]
        is_missing = labels < 0
        scores = np.where(is_missing, 0, scores[:, :width])
        if self.worth is None:
            return Answer(labels, scores.astype(np.float32))
        unweighted = scores / self.worth[labels]
        unweighted = np.where(is_missing, 0, unweighted)
        return Answer(
            labels=labels,
            probabilities=unweighted.astype(np.float32),
            weighted=scores,
        )

    def is_complete(self, labels: Labels, smallest: Array, ranked: Answer) -> Array:
        """Return for which rows no unlisted label can be in the answer.

        ``labels`` are listed, and the probability of all others is below ``smallest``.
        """
        n_listed = self.is_allowed[labels].sum(axis=1)
        all_listed = n_listed == len(self.columns)
        thresholds = self.threshold[self.columns]
        below_threshold = smallest <= thresholds.min(initial=np.inf)
        complete = all_listed | below_threshold
        if ranked.labels.shape[1] == self.n_wanted:
            complete |= self._is_full(smallest, ranked)
        if self.nodes is not None:
            complete &= self.nodes.is_settled(smallest)
        return np.asarray(complete)

    def _is_full(self, smallest: Array, ranked: Answer) -> Array:
        """Return which rows have the wanted number of labels, all above each unlisted one."""
        is_full = ranked.labels[:, -1] >= 0
        if self.worth is None:
            return is_full
        assert ranked.weighted is not None
        last_scores = ranked.weighted[:, -1]
        bound = smallest * self.worth[self.columns].max()
        return is_full & (last_scores >= bound)


def _query(model: Model, request: Request) -> _Query:
    """Return what a request asks of the labels or nodes of a model."""
    c = model.n_labels
    threshold = np.asarray(request.threshold, dtype=np.float64)
    threshold = np.broadcast_to(threshold, (c,))
    worth = None
    if request.hierarchy == "flat":
        columns = request.allowed
        if columns is None:
            columns = np.arange(c)
        if request.tail is not None:
            worth = model.worth(*request.tail)
        return _Query(request.k, columns, threshold, worth)
    nodes = NodeSpace.of(model, request.hierarchy, threshold, request.allowed)
    if request.tail is not None:
        worth = model.worth_of_nodes(*request.tail)
        worth = worth[nodes.order]
    return _Query(request.k, nodes.columns, nodes.threshold, worth, nodes)


def _answer_block(model: Model, rows: Views, query: _Query) -> Answer:
    """Answer for rows that are scored together: from the listed labels where these suffice."""
    blank = is_blank(model, rows)
    prepared = model.prepared(rows)
    listed_in_all = listed_labels(model, prepared)
    listed = listed_in_all.without(blank)
    labels, probabilities = _as_asked(listed, query)
    ranked = query.ranked(labels, probabilities)
    complete = query.is_complete(labels, listed.smallest, ranked) | blank
    if complete.all():
        return ranked
    all_rows = np.arange(rows.n)
    block_size = max(1, BLOCK_SCORES // model.n_labels)
    if rows.n <= block_size and not complete.any():
        # What is computed once for these rows is used again.
        P = with_unlisted(model, rows, prepared, listed_in_all)
        return _assembled([(all_rows, _best_of_all(P, query))], rows.n, query)
    blocks = [(all_rows, ranked)]
    incomplete = np.flatnonzero(~complete)
    for span in spans(len(incomplete), block_size):
        block_rows = incomplete[span]
        P = probabilities_of_all(model, rows[block_rows])
        best = _best_of_all(P, query)
        blocks.append((block_rows, best))
    return _assembled(blocks, rows.n, query)


def _as_asked(listed: ListedLabels, query: _Query) -> tuple[Labels, Array]:
    """Return the listed labels, or the nodes at and above them, and their probabilities."""
    if query.nodes is None:
        return listed.labels, listed.probabilities
    return query.nodes.of_listed(listed.labels, listed.probabilities)


def _best_of_all(P: Array, query: _Query) -> Answer:
    """Rank the probabilities (n × c) of all labels."""
    if query.nodes is not None:
        P = query.nodes.of_all(P)
    columns = query.columns
    P = P[:, columns]
    reaches_threshold = query.threshold[columns] <= P
    scores = query.weighted(P, columns)
    scores = np.where(reaches_threshold, scores, -np.inf)
    width = min(query.n_wanted, _largest_number(np.isfinite(scores)))
    if width == 0:
        shape = (len(P), 1)
        no_labels = np.full(shape, -1)
        return query.ranked(no_labels, np.zeros(shape, dtype=P.dtype))
    positions, _ = top_k(scores, width)
    is_missing = positions < 0
    labels = np.where(is_missing, -1, columns[positions])
    probabilities = np.take_along_axis(P, positions, axis=1)
    probabilities = np.where(is_missing, 0, probabilities)
    return query.ranked(labels, probabilities)


def _largest_number(marks: NDArray[np.bool_]) -> int:
    """Return the largest number of marks in a row."""
    counts = marks.sum(axis=1)
    return int(counts.max(initial=0))


def _assembled(blocks: list[tuple[Any, Answer]], n: int, query: _Query) -> Answer:
    """Join answers for some rows each; of two for a row the later one counts."""
    widths = [block.labels.shape[1] for _, block in blocks]
    width = max(widths, default=0)
    shape = (n, width)
    labels = np.full(shape, -1, dtype=np.int64)
    probabilities = np.zeros(shape, dtype=np.float32)
    weighted = None
    if query.worth is not None:
        weighted = np.zeros(shape)
    for rows, block in blocks:
        columns = slice(block.labels.shape[1])
        labels[rows] = -1
        labels[rows, columns] = block.labels
        probabilities[rows] = 0
        probabilities[rows, columns] = block.probabilities
        if weighted is not None:
            weighted[rows] = 0
            weighted[rows, columns] = block.weighted
    return Answer(labels, probabilities, weighted)


def _row_blocks(model: Model, n: int, max_rows: int) -> Iterator[slice]:
    """Return the rows to score at a time, so that memory stays bounded."""
    part_rows = [part.block_rows for part in model.parts.values()]
    block_rows = min([max_rows, *part_rows])
    return spans(n, max(1, block_rows))
