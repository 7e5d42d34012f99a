"""One request, one answer: the labels of some rows with their probabilities.

Everything that predicts calls `answer` or `all_probabilities`. The probability of a label depends
on the row and the label alone. A request filters labels, weighs them for the tail and cuts the
ranking; it changes no probability.

In a hierarchy of labels, the probability of a node is the largest of its own and of those of all
labels below it. That, too, depends on the row and the node alone.

Labels that a part lists are scored for every row. Every other label is less likely than the least
likely listed one, so all labels are scored only for the rows whose answer may hold another label.

A blend knows nothing of labels without examples. A part that can score them gives their
probabilities, and those that are at least as likely as the least likely listed label are listed,
too.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.blend import (
    LARGEST,
    SMALLEST,
    Candidates,
    all_scores,
    collect,
    logistic,
    unlisted_scores,
)
from rembrandt.data.views import Views, as_views
from rembrandt.linalg import Array
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.ranking import rank, top_k
from rembrandt.linalg.sparse import is_sparse
from rembrandt.model.model import Model
from rembrandt.nodes import NodeSpace, closed_probabilities
from rembrandt.parts.protocol import SCORED_BLOCK_ROWS, Labels
from rembrandt.progress import Report, silent

BLOCK_SCORES = 1 << 22  # scores of all labels that are in memory at a time
MAX_UNSEEN_LABELS = 20  # labels without examples that are listed for a row
MAX_UNSEEN_SHARE = 0.99  # of the probability where rows have exactly one label


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


@dataclass(frozen=True)
class _Query:
    """A request as arrays over the labels of the model, or over the nodes of its hierarchy."""

    n_wanted: int
    threshold: Array  # c
    is_allowed: NDArray[np.bool_]  # c + 1; the last one stands for no label
    columns: Labels  # that are allowed, ascending
    worth: Array | None  # c
    nodes: NodeSpace | None = None  # where a hierarchy counts

    @classmethod
    def of(cls, model: Model, request: Request) -> "_Query":
        c = model.n_labels
        columns = np.arange(c) if request.allowed is None else request.allowed
        threshold = np.broadcast_to(np.asarray(request.threshold, dtype=np.float64), (c,))
        nodes = None
        if request.hierarchy == "flat":
            worth = None if request.tail is None else model.worth(*request.tail)
        else:
            nodes = NodeSpace.of(model, request.hierarchy, threshold, request.allowed)
            columns = nodes.columns
            threshold = nodes.threshold
            worth = None
            if request.tail is not None:
                worth = model.worth_of_nodes(*request.tail)[nodes.order]
        is_allowed = np.zeros(len(threshold) + 1, dtype=np.bool_)
        is_allowed[columns] = True
        n_wanted = len(columns) if request.k is None else min(request.k, len(columns))
        return cls(n_wanted, threshold, is_allowed, columns, worth, nodes)

    def ranked(self, labels: Labels, probabilities: Array) -> Answer:
        """Filter labels (n × m) of rows, rank them and cut the ranking."""
        kept = self.is_allowed[labels] & (probabilities >= self.threshold[labels])
        labels = np.where(kept, labels, -1)
        if self.worth is None:
            scores = probabilities
        else:
            scores = probabilities * self.worth[labels]
        width = min(self.n_wanted, int(kept.sum(axis=1).max(initial=0)))
        # -1 and -inf sort behind every label.
        labels, scores = rank(labels, np.where(kept, scores, -np.inf))
        labels = labels[:, :width]
        scores = np.where(labels < 0, 0, scores[:, :width])
        if self.worth is None:
            return Answer(labels, scores.astype(np.float32))
        shares = np.where(labels < 0, 0, scores / self.worth[labels])
        return Answer(labels, shares.astype(np.float32), scores)

    def is_complete(self, listed: "_Listed", answer: Answer) -> Array:
        """Return for which rows no unlisted label can be in the answer."""
        n_listed = self.is_allowed[listed.labels].sum(axis=1)
        smallest = listed.smallest
        all_listed = n_listed == len(self.columns)
        below_threshold = smallest <= self.threshold[self.columns].min(initial=np.inf)
        complete = all_listed | below_threshold
        if answer.labels.shape[1] == self.n_wanted:
            last = answer.labels[:, -1]
            enough = last >= 0
            if self.worth is not None:
                assert answer.weighted is not None
                most = smallest * self.worth[self.columns].max()
                enough &= answer.weighted[:, -1] >= most
            complete |= enough
        if self.nodes is not None:
            complete &= self.nodes.is_settled(smallest)
        return np.asarray(complete)


@dataclass(frozen=True)
class _Listed:
    """The listed labels of rows, or the nodes at and above them; -1 where there is none."""

    labels: Labels  # n × m
    probabilities: Array
    smallest: Array  # n: the probability of the least likely listed label; others are below it


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
    query = _Query.of(model, request)
    views = as_views(request.rows)
    n = views.n
    blocks = []
    if query.n_wanted:
        for rows in _spans(model, n):
            report("predicting", rows.start, n)
            blocks.append(_answer_block(model, views[rows], query))
        report("predicting", n, n)
    ranked = _stacked(blocks, n, with_weights=query.worth is not None)
    if query.nodes is None:
        return ranked
    return replace(ranked, labels=query.nodes.numbers(ranked.labels))


def all_probabilities(
    model: Model, rows: Any, report: Report = silent, hierarchy: str = "flat"
) -> NDArray[np.float32]:
    """Return the probabilities of all labels, n × c; zeros for a text without a known word.

    With ``hierarchy="closed"`` those of a label are at least those of the labels below it.
    """
    views = as_views(rows)
    n = views.n
    blocks = [np.empty((0, model.n_labels), dtype=np.float32)]
    for block in _spans(model, n, BLOCK_SCORES // model.n_labels):
        report("predicting", block.start, n)
        P = _probabilities_of(model, views[block])
        if hierarchy == "closed":
            P = closed_probabilities(model, P)
        blocks.append(P)
    report("predicting", n, n)
    return np.vstack(blocks)


def log_odds(probabilities: Array) -> NDArray[np.float32]:
    """Return the log-odds of probabilities; those of zero are as low as a probability can be."""
    inside = np.clip(probabilities.astype(np.float64), SMALLEST, LARGEST)
    return (np.log(inside) - np.log1p(-inside)).astype(np.float32)


@dataclass(frozen=True)
class ScoredLabels:
    """What the blend knows of some labels of one row, for explanations (m each)."""

    is_listed: NDArray[np.bool_]
    likelihood: Array  # parts × m
    log_odds_of_parts: Array  # parts × m
    log_frequencies: Array
    comparison: Array  # what ranks in the row and the bound by listed labels add
    log_odds: Array  # of the probability


def scored_labels(model: Model, row: Views, labels: Labels) -> ScoredLabels:
    """Return the terms of the log-odds of ``labels`` for one row."""
    prepared = model.prepared(row)
    candidates, _ = _seen(model, prepared)
    wanted = labels[None]
    of_parts = [scores[0] for scores in unlisted_scores(model.parts, prepared, wanted)]
    part_log_odds = np.stack(of_parts).astype(np.float64)
    frequencies = model.log_frequencies[labels].astype(np.float64)
    likelihood = np.zeros((len(model.parts), len(labels)))
    ranks = np.zeros(len(labels))
    listed_labels = candidates.labels[0][candidates.is_label[0]]
    is_listed = np.isin(labels, listed_labels)
    entries = np.searchsorted(listed_labels, labels[is_listed])
    for number, (name, features) in enumerate(candidates.features.items()):
        listed = features[0, entries].astype(np.float64)
        likelihood[number, is_listed] = listed[:, 0]
        part_log_odds[number, is_listed] = listed[:, 1]
        ranks[is_listed] += listed[:, 2:] @ np.array(model.blend.weights[name])[2:]
    exact = model.blend.unlisted_log_odds(list(part_log_odds), frequencies)
    exact[is_listed] = model.blend.log_odds(candidates)[0, entries]
    z = log_odds(_probabilities_of(model, row)[0, labels]).astype(np.float64)
    # Competition, bounds and rounding are comparisons with the other labels of the row, too.
    comparison = ranks + z - exact
    return ScoredLabels(is_listed, likelihood, part_log_odds, frequencies, comparison, z)


def assigned(model: Model, labels: Labels, probabilities: Array) -> NDArray[np.bool_]:
    """Return which ranked labels (n × m) the model assigns: those that reach its threshold, or the
    first one of rows with one label each.
    """
    is_label = labels >= 0
    if model.multiclass:
        is_label[:, 1:] = False
        return is_label
    threshold = np.broadcast_to(np.asarray(model.threshold), (model.n_labels,))
    n_groups = len(model.nodes) - model.n_labels
    threshold = np.append(threshold, np.full(n_groups, threshold.min()))
    return np.asarray(is_label & (probabilities >= threshold[labels]))


def is_blank(model: Model, rows: Any) -> NDArray[np.bool_]:
    """Return which rows are texts of which the model knows nothing.

    They have no single term of the model, and no name of a label without examples occurs in them.
    A model with a part that reads every text knows something of all but empty ones.
    """
    views = as_views(rows)
    if views.texts is not None and model.reads_every_text:
        return np.array([not text.strip() for text in views.texts], dtype=np.bool_)
    if model.text is None or views.has_vectors or not is_sparse(views.features):
        return np.zeros(views.n, dtype=np.bool_)
    blank = np.asarray(np.diff(views.features.indptr) == 0)
    if model.unseen_part is None or not blank.any():
        return blank
    part = model.parts[model.unseen_part]
    empty = np.flatnonzero(blank)
    view = model.settings.parts[model.unseen_part].view
    prepared = part.prepare(views[empty].view(view))
    matched, _ = part.top_among(prepared, model.is_unseen, 1)
    blank[empty] = (matched < 0).all(axis=1)
    return blank


def indicator(labels: Labels, n_labels: int) -> sparse.csr_array:
    """Return lists of labels, -1 after the last, as a 0/1 matrix."""
    counts = (labels >= 0).sum(axis=1)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    columns = labels[labels >= 0]
    ones = np.ones(len(columns), dtype=np.int8)
    matrix = sparse.csr_array((ones, columns, indptr), shape=(len(labels), n_labels))
    matrix.sort_indices()
    return matrix


def _answer_block(model: Model, rows: Views, query: _Query) -> Answer:
    """Answer for rows that are scored together: from the listed labels where these suffice."""
    candidates, probabilities = _listed(model, model.prepared(rows))
    blank = is_blank(model, rows)
    probabilities[blank] = 0
    candidates.labels[blank] = -1
    is_label = candidates.is_label
    smallest = np.where(is_label, probabilities, np.inf).min(axis=1, initial=np.inf)
    listed = _Listed(candidates.labels, probabilities, smallest)
    if query.nodes is not None:
        nodes, node_probabilities = query.nodes.of_listed(candidates.labels, probabilities)
        listed = _Listed(nodes, node_probabilities, smallest)
    ranked = query.ranked(listed.labels, listed.probabilities)
    complete = query.is_complete(listed, ranked) | blank
    if complete.all():
        return ranked
    incomplete = np.flatnonzero(~complete)
    blocks = []
    for part in spans(len(incomplete), max(1, BLOCK_SCORES // model.n_labels)):
        P = _probabilities_of(model, rows[incomplete[part]])
        if query.nodes is not None:
            P = query.nodes.of_all(P)
        blocks.append(_best_of_all(P[:, query.columns], query))
    return _replaced(ranked, incomplete, _stacked(blocks, len(incomplete), query.worth is not None))


def _best_of_all(P: Array, query: _Query) -> Answer:
    """Rank the probabilities (n × allowed labels) of all allowed labels."""
    scores = P if query.worth is None else P * query.worth[query.columns]
    scores = np.where(query.threshold[query.columns] <= P, scores, -np.inf)
    n_best = int(np.isfinite(scores).sum(axis=1).max(initial=0))
    if n_best == 0:
        return query.ranked(np.full((len(P), 1), -1), np.zeros((len(P), 1), dtype=P.dtype))
    positions, _ = top_k(scores, min(query.n_wanted, n_best))
    labels = np.where(positions < 0, -1, query.columns[positions])
    probabilities = np.where(positions < 0, 0, np.take_along_axis(P, positions, axis=1))
    return query.ranked(labels, probabilities)


def _seen(model: Model, prepared: dict[str, Any]) -> tuple[Candidates, Array]:
    """Return the listed labels that have examples, and their probabilities."""
    lengths = model.blend.list_lengths
    candidates = collect(model.parts, prepared, model.log_frequencies, lengths)
    if model.unseen_part is not None:
        candidates = candidates.among(~model.is_unseen)
    return candidates, model.blend.probabilities(candidates, model.n_labels)


def _listed(model: Model, prepared: dict[str, Any]) -> tuple[Candidates, Array]:
    """Return all listed labels, and their probabilities.

    Where rows have exactly one label, those without examples take their share from the others.
    """
    candidates, probabilities = _seen(model, prepared)
    if model.unseen_part is None:
        return candidates, probabilities
    part = model.parts[model.unseen_part]
    unseen, shares = part.top_among(prepared[model.unseen_part], model.is_unseen, MAX_UNSEEN_LABELS)
    least = np.where(candidates.is_label, probabilities, LARGEST).min(axis=1, initial=LARGEST)
    is_listed = (unseen >= 0) & (shares >= least[:, None])
    unseen = np.where(is_listed, unseen, -1)
    shares = np.where(is_listed, np.clip(shares, SMALLEST, LARGEST), 0).astype(np.float32)
    if model.multiclass:
        total = shares.sum(axis=1, keepdims=True)
        shares = shares * (np.minimum(total, MAX_UNSEEN_SHARE) / np.where(total > 0, total, 1))
        left = 1 - np.minimum(total, MAX_UNSEEN_SHARE)
        probabilities = np.where(candidates.is_label, np.maximum(probabilities * left, SMALLEST), 0)
    labels = np.hstack([candidates.labels, unseen])
    joined = np.hstack([probabilities, shares]).astype(np.float32)
    order = np.argsort(np.where(labels < 0, model.n_labels, labels), axis=1, kind="stable")
    labels = np.take_along_axis(labels, order, axis=1)
    without_features = Candidates(labels, {}, np.zeros(labels.shape, dtype=np.float32))
    return without_features, np.take_along_axis(joined, order, axis=1)


def _probabilities_of(model: Model, rows: Views) -> NDArray[np.float32]:
    """Return the probabilities of all labels of rows that are scored together, n × c."""
    prepared = model.prepared(rows)
    candidates, listed = _listed(model, prepared)
    odds = model.blend.unlisted_log_odds(
        all_scores(model.parts, prepared, rows.n), model.log_frequencies
    )
    if model.unseen_part is not None:
        scores = model.parts[model.unseen_part].every(prepared[model.unseen_part])
        odds[:, model.is_unseen] = log_odds(scores[:, model.is_unseen])
    entry_rows, entries = np.nonzero(candidates.is_label)
    listed_columns = candidates.labels[entry_rows, entries]
    is_listed = np.zeros(odds.shape, dtype=np.bool_)
    is_listed[entry_rows, listed_columns] = True
    cap = _below(np.where(candidates.is_label, listed, np.inf).min(axis=1, initial=np.inf))
    if model.blend.competing:
        rest = 1 - listed.sum(axis=1, dtype=np.float64)
        others = _shares(odds, ~is_listed, np.maximum(rest, 0), cap)
    else:
        others = logistic(odds)
    P = np.clip(others.astype(np.float32), SMALLEST, cap[:, None])
    P[entry_rows, listed_columns] = listed[entry_rows, entries]
    P[is_blank(model, rows)] = 0
    return P


def _below(smallest: Array) -> NDArray[np.float32]:
    """Return the next smaller probabilities."""
    bounded = np.minimum(smallest, LARGEST).astype(np.float32)
    return np.maximum(np.nextafter(bounded, np.float32(0)), SMALLEST)


def _shares(log_odds: Array, is_unlisted: Array, rest: Array, cap: Array) -> Array:
    """Divide what is left of the probability of each row among its unlisted labels.

    The shares are proportional to the odds, mixed with equal shares as far as the largest must
    become smaller to stay below ``cap``.
    """
    n_unlisted = is_unlisted.sum(axis=1, keepdims=True)
    z = np.where(is_unlisted, log_odds, -np.inf)
    largest = z.max(axis=1, keepdims=True, initial=-np.inf)
    odds = np.exp(z - np.where(np.isfinite(largest), largest, 0))
    rest = rest[:, None]
    equal = rest / np.maximum(n_unlisted, 1)
    shares = rest * odds / np.maximum(odds.sum(axis=1, keepdims=True), 1e-300)
    excess = shares.max(axis=1, keepdims=True, initial=0) - cap[:, None]
    spread = shares.max(axis=1, keepdims=True, initial=0) - equal
    mixing = np.clip(excess / np.maximum(spread, 1e-300), 0, 1)
    return np.asarray((1 - mixing) * shares + mixing * equal)


def _stacked(blocks: list[Answer], n: int, with_weights: bool) -> Answer:
    """Return consecutive blocks of rows in as many columns as the widest has."""
    width = max((block.labels.shape[1] for block in blocks), default=0)
    labels = np.full((n, width), -1, dtype=np.int64)
    probabilities = np.zeros((n, width), dtype=np.float32)
    weighted = np.zeros((n, width)) if with_weights else None
    start = 0
    for block in blocks:
        rows = slice(start, start + len(block.labels))
        columns = slice(block.labels.shape[1])
        labels[rows, columns] = block.labels
        probabilities[rows, columns] = block.probabilities
        if weighted is not None:
            weighted[rows, columns] = block.weighted
        start = rows.stop
    return Answer(labels, probabilities, weighted)


def _replaced(ranked: Answer, rows: Array, others: Answer) -> Answer:
    """Return an answer with some rows replaced."""
    width = max(ranked.labels.shape[1], others.labels.shape[1])
    labels = _widened(ranked.labels, width, -1)
    labels[rows] = _widened(others.labels, width, -1)
    probabilities = _widened(ranked.probabilities, width, 0)
    probabilities[rows] = _widened(others.probabilities, width, 0)
    if ranked.weighted is None or others.weighted is None:
        return Answer(labels, probabilities)
    weighted = _widened(ranked.weighted, width, 0)
    weighted[rows] = _widened(others.weighted, width, 0)
    return Answer(labels, probabilities, weighted)


def _widened(block: Array, width: int, fill: int) -> Array:
    missing = width - block.shape[1]
    return np.pad(block, ((0, 0), (0, missing)), constant_values=fill)


def _spans(model: Model, n: int, most: int = SCORED_BLOCK_ROWS) -> Iterator[slice]:
    """Return the rows to score at a time, so that memory stays bounded."""
    sizes = [part.block_rows for part in model.parts.values()]
    return spans(n, max(1, min([most, *sizes])))
