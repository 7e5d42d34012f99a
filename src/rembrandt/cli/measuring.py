"""The measures of a model, in tables for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rembrandt.cli.screen import Screen

if TYPE_CHECKING:
    from rembrandt.evaluation import Measured
    from rembrandt.metrics import Decile


def show(screen: Screen, measured: Measured) -> None:
    """The measures in per cent, in a table for people."""
    from rembrandt.evaluation import KS

    rows = []
    for name, title in (("p", "P@k"), ("ndcg", "nDCG@k"), ("psp", "PSP@k")):
        for who, values in (("this model", measured.model), ("most popular labels", measured.popular)):
            rows.append([title, who, *(f"{100 * values[f'{name}@{k}']:.2f}" for k in KS)])
            title = ""
    screen.table(["%", "", *(f"k = {k}" for k in KS)], rows, left=2)
    screen.say(f"Error (1 - P@1) {measured.model['error']:.2%}; {measured.examples_per_second:,.0f} examples a second.")


def show_deciles(screen: Screen, deciles: list[Decile]) -> None:
    """Where along the frequency of labels the model is good."""
    from rembrandt.evaluation import KS

    screen.table(
        ["labels by frequency", "in training", "true here", f"recall@{max(KS)}", "precision", "found at least once"],
        (
            [
                f"tenth {i}",
                f"{decile.rarest:,} to {decile.commonest:,}",
                f"{decile.n_true:,}",
                f"{decile.recall:.1%}" if decile.n_true else "-",
                f"{decile.precision:.1%}" if decile.n_predicted else "-",
                f"{decile.covered:.1%}" if decile.n_true else "-",
            ]
            for i, decile in enumerate(deciles, 1)
        ),
    )
