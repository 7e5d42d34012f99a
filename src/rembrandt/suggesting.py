"""Which texts a person should label next: those whose answers teach a model most.

The uncertainty about a text is the probability that its first label is wrong. An answer teaches
about the text and about texts like it. So a text is worth its uncertainty times that of all texts,
each counted as far as it is similar to this text and to no text that was chosen or labelled before.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rembrandt.data.views import Views
from rembrandt.linalg import Array
from rembrandt.linalg.covering import Covering
from rembrandt.model.model import Model
from rembrandt.predict import Answer, Request, answer
from rembrandt.progress import Report, silent


@dataclass(frozen=True)
class Suggested:
    """Rows in the order in which a person should label them."""

    rows: NDArray[np.int64]
    answer: Answer  # of the model, for these rows in their order


def suggest(
    model: Model,
    rows: Views,
    n_wanted: int,
    k: int = 1,
    labelled: Views | None = None,
    report: Report = silent,
) -> Suggested:
    """Return the rows that a person should label next.

    Parameters
    ----------
    model : Model
        A fitted model.
    rows : Views
        Rows without labels.
    n_wanted : int
        How many to return, the most valuable first.
    k : int, default=1
        Labels of each row in the answer of the model.
    labelled : Views, optional
        Rows that have labels, also those that the model has learned: rows like them are worth less.
    report : callable, optional
        Called as ``report(stage, done, total)``.

    Returns
    -------
    Suggested
    """
    ranked = answer(model, Request(rows, max(1, k)), report)
    covering = Covering(_blocks(rows), _uncertainty(ranked, rows.n))
    if labelled is not None and labelled.n:
        covering.cover(_blocks(labelled), report)
    order = covering.choose(n_wanted, report)
    chosen = Answer(ranked.labels[order, :k], ranked.probabilities[order, :k])
    return Suggested(order, chosen)


def _blocks(rows: Views) -> list[Array]:
    return [rows.features, *rows.vectors]


def _uncertainty(ranked: Answer, n: int) -> NDArray[np.float64]:
    """Return the probability that the first label of each row is wrong; 1 where there is none."""
    if ranked.probabilities.shape[1] == 0:
        return np.ones(n)
    return 1 - ranked.probabilities[:, 0].astype(np.float64)
