"""The best labels of texts, ranked again by another model, such as a cross-encoder or an LLM."""

import hashlib
import json
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Self

import numpy as np

from rembrandt.checks import check_number, check_whole
from rembrandt.errors import DataError, RembrandtError, RembrandtWarning, SettingsError
from rembrandt.forks import Lock
from rembrandt.linalg import Array

MAX_LEARNED_ROWS = 200  # that a weight is learned on
_MAX_WEIGHT = 1e3  # of a score with unit variance
_LARGEST = 1 - 1e-7  # probability; those of one have no log-odds
_SMALLEST = 1e-12


class Reranker:
    """Rank the best labels of texts again.

    The log-odds of each of the best labels become those of the model plus ``weight`` × the score
    of another model, less the mean score of these labels. Labels after them stay behind.

    Whatever goes wrong is a warning: the texts that it happens to keep the ranking of the model.

    Parameters
    ----------
    scorer : object
        Has ``score(text, names)``, which returns a number for each of the names of the best labels,
        larger where the name fits better; or ``score_many(texts, names)``, which takes lists of
        texts and of their names and returns a list of such arrays.
    n_labels : int, default=20
        Number of labels that are ranked again.
    weight : float, default=1.0
        Weight of the scores; see `learn_weight`.
    batch_size : int, default=32
        Number of texts in a call of ``score_many``.
    max_texts : int, default=1000
        Number of texts of a prediction that are ranked again: the first ones.
    max_seconds : float, default=60.0
        Time that a prediction waits for scores.
    cache_size : int, default=10_000
        Number of texts whose scores are kept for later predictions.

    Attributes
    ----------
    weight : float
        The weight that was given, or learned.
    """

    def __init__(
        self,
        scorer: Any,
        n_labels: int = 20,
        weight: float = 1.0,
        batch_size: int = 32,
        max_texts: int = 1000,
        max_seconds: float = 60.0,
        cache_size: int = 10_000,
    ) -> None:
        methods = [getattr(scorer, name, None) for name in ("score", "score_many")]
        if not any(map(callable, methods)):
            raise SettingsError(
                f"the scorer {scorer!r} has no score(text, names) that returns a number for each "
                "name",
                "reranker",
            )
        check_whole("n_labels", n_labels, 2)
        check_number("weight", weight, 0.0)
        check_whole("batch_size", batch_size, 1)
        check_whole("max_texts", max_texts, 0)
        check_number("max_seconds", max_seconds, 0.0)
        check_whole("cache_size", cache_size, 0)
        self.scorer = scorer
        self.n_labels = n_labels
        self.weight = float(weight)
        self.batch_size = batch_size
        self.max_texts = max_texts
        self.max_seconds = max_seconds
        self.cache_size = cache_size
        self._cache: OrderedDict[bytes, Array] = OrderedDict()
        self._lock = Lock()

    def learn_weight(self, classifier: Any, X: Sequence[str], y: Sequence[Any]) -> Self:
        """Learn the weight from texts that the model was not fitted to.

        Parameters
        ----------
        classifier : RembrandtClassifier
            The fitted model.
        X : sequence of str
            Texts; the first 200 are used.
        y : sequence
            One label, or a list of labels, for each.

        Returns
        -------
        self : Reranker
        """
        if len(X) != len(y) or len(X) == 0:
            raise DataError(f"there are {len(X):,} texts and {len(y):,} lists of labels")
        texts = [*X][:MAX_LEARNED_ROWS]
        labels, probabilities = classifier.predict_topk(texts, self.n_labels, hierarchy="flat")
        shown = classifier.label_names_
        names = []
        for row in labels.tolist():
            names.append([shown.get(label, str(label)) for label in row if label is not None])
        scores, n_failed = self._scores(texts, names)
        if n_failed == len(texts):
            raise RembrandtError(
                "no text could be scored, so there is nothing to learn a weight from; see the "
                "warning for the reason",
                "reranker",
            )
        log_odds = [np.zeros(0)]
        centred = [np.zeros(0)]
        hits = [np.zeros(0, dtype=np.bool_)]
        for row, row_scores in enumerate(scores):
            if row_scores is None:
                continue
            true = _label_set(y[row])
            n_names = len(names[row])
            log_odds.append(_log_odds(probabilities[row, :n_names]))
            centred.append(row_scores - row_scores.mean())
            hits.append(np.array([label in true for label in labels[row, :n_names]]))
        self.weight = _best_weight(
            np.concatenate(log_odds), np.concatenate(centred), np.concatenate(hits)
        )
        return self

    def rank(
        self, texts: Sequence[str], names: list[list[str]], labels: Array, probabilities: Array
    ) -> tuple[Array, Array]:
        """Return ranked labels and probabilities (both n × k) with the first ones ranked again.

        ``names`` are those of the first ``n_labels`` labels of each text, at most.
        """
        scores, _ = self._scores(texts, names)
        labels = labels.copy()
        probabilities = probabilities.copy()
        for row, row_scores in enumerate(scores):
            if row_scores is None:
                continue
            m = len(row_scores)
            z = _log_odds(probabilities[row, :m]) + self.weight * (row_scores - row_scores.mean())
            floor = probabilities[row, m] if m < probabilities.shape[1] else 0
            new = np.clip(1 / (1 + np.exp(-z)), floor, None).astype(probabilities.dtype)
            order = np.argsort(-z, kind="stable")
            labels[row, :m] = labels[row, order]
            probabilities[row, :m] = new[order]
        return labels, probabilities

    def _scores(
        self, texts: Sequence[str], names: list[list[str]]
    ) -> tuple[list[Array | None], int]:
        """Return the scores of each text, None where there are none, and how many have none."""
        deadline = time.monotonic() + self.max_seconds
        scores: list[Array | None] = [None] * len(texts)
        keys = [_key(text, row) for text, row in zip(texts, names, strict=True)]
        waiting = []
        for row, key in enumerate(keys):
            scores[row] = self._cached(key)
            if scores[row] is None and len(names[row]) > 1:
                waiting.append(row)
        reason = ""
        if len(waiting) > self.max_texts:
            reason = f"max_texts is {self.max_texts:,}"
        chosen = waiting[: self.max_texts]
        n_failed = len(waiting) - len(chosen)
        for start in range(0, len(chosen), self.batch_size):
            rows = chosen[start : start + self.batch_size]
            try:
                batch = self._batch([texts[i] for i in rows], [names[i] for i in rows], deadline)
            except Exception as error:  # noqa: BLE001 - scorers raise their own; it is said below
                reason = str(error) or type(error).__name__
                n_failed += len(chosen) - start
                break
            for row, row_scores in zip(rows, batch, strict=True):
                scores[row] = row_scores
                self._keep(keys[row], row_scores)
        if n_failed:
            message = (
                f"{n_failed:,} of {len(texts):,} texts keep the ranking of the model, because the "
                f"reranker did not score them: {reason}"
            )
            warnings.warn(RembrandtWarning(message, "reranker"), stacklevel=3)
        return scores, n_failed

    def _batch(self, texts: list[str], names: list[list[str]], deadline: float) -> list[Array]:
        """Score some texts, and check what comes back."""
        score_many = getattr(self.scorer, "score_many", None)
        if callable(score_many):
            answers = _within(deadline, lambda: [*score_many(texts, names)])
        else:
            answers = []
            for text, row in zip(texts, names, strict=True):
                answers.append(_within(deadline, partial(self.scorer.score, text, row)))
        if len(answers) != len(texts):
            raise DataError(f"it returned {len(answers)} arrays for {len(texts)} texts")
        checked = []
        for row, answer in zip(names, answers, strict=True):
            row_scores = np.asarray(answer, dtype=np.float64)
            if row_scores.shape != (len(row),) or not np.isfinite(row_scores).all():
                raise DataError(
                    f"it returned an array of shape {row_scores.shape} for {len(row)} names; "
                    "expected a finite number for each"
                )
            checked.append(row_scores)
        return checked

    def _cached(self, key: bytes) -> Array | None:
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
            return self._cache.get(key)

    def _keep(self, key: bytes, scores: Array) -> None:
        with self._lock:
            self._cache[key] = scores
            while len(self._cache) > self.cache_size:
                self._cache.popitem(last=False)


def _label_set(labels: Any) -> set[Any]:
    """Return one label, or several, as a set."""
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        return {labels}
    return {*labels}


def _within(deadline: float, call: Callable[[], Any]) -> Any:
    """Return what a call returns, or raise what it raises; stop waiting at the deadline.

    The call runs in a thread of its own, which is left alone if it takes longer.
    """
    outcome: dict[str, Any] = {}

    def run() -> None:
        try:
            outcome["result"] = call()
        except BaseException as error:  # noqa: BLE001 - it is raised again below
            outcome["error"] = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(max(0.0, deadline - time.monotonic()))
    if not outcome:
        raise RembrandtError("it took longer than max_seconds", "reranker")
    if "error" in outcome:
        raise outcome["error"]
    return outcome["result"]


def _key(text: str, names: list[str]) -> bytes:
    """Return a checksum of a text and the names that it is scored with."""
    return hashlib.sha256(json.dumps([text, names]).encode()).digest()


def _log_odds(probabilities: Array) -> Array:
    inside = np.clip(probabilities.astype(np.float64), _SMALLEST, _LARGEST)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def _best_weight(log_odds: Array, scores: Array, hits: Array) -> float:
    """Return the weight of scores with the smallest logarithmic loss."""
    spread = float(scores.std())
    if spread == 0:
        return 0.0
    signs = np.where(hits, -1.0, 1.0)

    def loss(weight: float) -> float:
        return float(np.logaddexp(0, signs * (log_odds + weight / spread * scores)).sum())

    from scipy.optimize import minimize_scalar  # loads much

    best = minimize_scalar(loss, bounds=(0, _MAX_WEIGHT), method="bounded", options={"xatol": 1e-4})
    return float(best.x) / spread
