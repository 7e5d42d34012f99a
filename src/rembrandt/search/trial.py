"""Fit parts to one side of a split, and score the other side with them."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.candidates import (
    LIST_LENGTH,
    MAX_UNSEEN_LABELS,
    Candidates,
    UnlistedSample,
    UnseenSample,
    collect,
    log_frequencies_of,
    sample_unlisted,
)
from rembrandt.data.examples import Examples
from rembrandt.declarations import ModelSettings
from rembrandt.engines.backend import CPU, Backend
from rembrandt.fitting import check_memory, fit_part
from rembrandt.forks import cached_property
from rembrandt.linalg import Array
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.threads import side_by_side
from rembrandt.metrics.hits import hits
from rembrandt.parts.protocol import NO_PARTS, Labels, Part, Shared
from rembrandt.progress import Report, silent
from rembrandt.search.holdout import Split
from rembrandt.search.measures import KS, Measures, measure_labels


class Trial:
    """One split: a trial of settings is the fit of a part to fewer examples."""

    def __init__(
        self, data: Examples, split: Split, backend: Backend = CPU, has_stopping: bool = False
    ) -> None:
        self.fitted_share = len(split.fit) / data.n
        self.fit_data = data.take(split.fit)
        # Rows that say when a fit stops are not those that the blend is learned on.
        self.stopping: Examples | None = None
        held_out = split.held_out
        if has_stopping:
            self.stopping = data.take(held_out[1::2])
            held_out = held_out[::2]
        self.held_out = data.take(held_out)
        self.backend = backend.in_memory()
        # The embedding, and the sums over rows, of the last candidate.
        self._shared: dict[str, Shared] = {}

    def fit(
        self,
        name: str,
        settings: ModelSettings,
        earlier: Mapping[str, Part] = NO_PARTS,
        report: Report = silent,
    ) -> Part:
        """Fit a part, and move it to the backend on which it is then measured."""
        check_memory(self.fit_data, settings.with_parts([name]), self.backend)
        shared = self._shared.setdefault(name, Shared(capacity=1))
        part = fit_part(
            name,
            self.fit_data,
            settings,
            self.backend,
            report,
            earlier=earlier,
            shared=shared,
            stopping=self.stopping,
            scored=self.held_out,
        )
        return part.on(self.backend)

    @cached_property
    def has_examples(self) -> NDArray[np.bool_]:
        """Which labels have examples that parts are fitted to.

        A blend has no weights for the others, of which a part may know the names.
        """
        counts = np.bincount(self.fit_data.Y.indices, minlength=self.fit_data.n_labels)
        return np.asarray(counts > 0)

    def forget(self) -> None:
        """Free what candidates share."""
        self._shared.clear()

    def measure(self, part: Part, view: str) -> Measures:
        """Measure a part by itself."""
        labels = self._best_labels(part, view, max(KS))
        return measure_labels(self.held_out, labels)

    def ranked_hits(self, parts: Mapping[str, Part], views: Mapping[str, str]) -> dict[str, Array]:
        """Return the hits (n × ranks) of the best labels of every part that finds them itself."""
        listing = {name: part for name, part in parts.items() if part.retrieves_labels}
        depth = LIST_LENGTH * len(listing)

        def hits_of(name: str, _report: Report) -> Array:
            labels = self._best_labels(listing[name], views[name], depth)
            return np.asarray(hits(self.held_out.Y, labels))

        if not self.backend.on_host:
            return {name: hits_of(name, silent) for name in listing}
        ranked = side_by_side(hits_of, list(listing), own_pools=True)
        return dict(zip(listing, ranked, strict=True))

    def _best_labels(self, part: Part, view: str, k: int) -> Labels:
        rows = self.held_out.rows
        lists = []
        for span in spans(self.held_out.n, part.block_rows):
            prepared = part.prepare(rows[span].view(view))
            lists.append(part.top(prepared, k)[0])
        labels = np.vstack(lists)
        if part.scores_unseen_labels:
            labels = np.where(self.has_examples[labels], labels, -1)
        return labels

    def candidates(
        self,
        parts: dict[str, Part],
        views: Mapping[str, str],
        list_lengths: Mapping[str, int],
        seed: int,
    ) -> tuple[Candidates, UnlistedSample]:
        """Return the listed labels of the held-out rows, scored by every part, and a sample of the
        others.
        """
        counts = np.bincount(self.fit_data.Y.indices, minlength=self.fit_data.n_labels)
        log_frequencies = log_frequencies_of(counts, self.fit_data.n)
        rng = np.random.default_rng(seed)
        listed = []
        unlisted = []
        block_rows = min(part.block_rows for part in parts.values())
        rows = self.held_out.rows
        for span in spans(self.held_out.n, block_rows):
            block = rows[span]
            prepared = {name: part.prepare(block.view(views[name])) for name, part in parts.items()}
            candidates = collect(parts, prepared, log_frequencies, list_lengths)
            if any(part.scores_unseen_labels for part in parts.values()):
                candidates = candidates.among(self.has_examples)
            true_labels = padded_lists(self.held_out.Y[span])
            listed.append(candidates)
            unlisted.append(
                sample_unlisted(parts, prepared, candidates, true_labels, log_frequencies, rng)
            )
        return Candidates.joined(listed), UnlistedSample.joined(unlisted)

    def unseen(self, parts: Mapping[str, Part], views: Mapping[str, str]) -> UnseenSample:
        """Return the labels without examples that a part finds for the held-out rows."""
        for name, part in parts.items():
            if part.scores_unseen_labels:
                return self._unseen_by(part, views[name])
        return UnseenSample.empty()

    def _unseen_by(self, part: Part, view: str) -> UnseenSample:
        samples = []
        for span in spans(self.held_out.n, part.block_rows):
            prepared = part.prepare(self.held_out.rows[span].view(view))
            labels, likelihood = part.top_among(prepared, ~self.has_examples, MAX_UNSEEN_LABELS)
            is_label = labels >= 0
            is_true = hits(self.held_out.Y[span], labels) > 0
            samples.append(UnseenSample(likelihood[is_label], is_true[is_label]))
        return UnseenSample.joined(samples)


def padded_lists(Y: sparse.csr_array) -> Labels:
    """Return the labels of each row, -1 after the last."""
    sizes = np.diff(Y.indptr)
    lists = np.full((Y.shape[0], max(1, int(sizes.max(initial=0)))), -1, dtype=np.int64)
    positions = np.arange(Y.nnz) - np.repeat(Y.indptr[:-1], sizes)
    lists[np.repeat(np.arange(Y.shape[0]), sizes), positions] = Y.indices
    return lists
