"""The section of the report on scaling labels and rows, from the lines of ``scaling.jsonl``."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from math import sqrt
from statistics import mean
from typing import Any

from benchmarks.paper.experiment import Panel
from benchmarks.paper.scaling_jobs import (
    DROPPED,
    FEW_STEPS,
    MAIN,
    METHODS,
    OTHERS,
    OWN_RIDGE,
    STEPS,
    UNSCALED,
    Job,
    K,
    Scaling,
    best_scaling,
    choosing,
    set_check,
    usual_scaling,
)

FILE = "scaling.jsonl"
IMAGE, CURVE = (
    "mesh-difficulty.png",
    Panel("P@1 by difficulty", "n-grams kept (%)", "P@1 (%)", log_x=True),
)
Line = dict[str, Any]
Lines = dict[str, Line]

WHY = (
    "Every embedding minimises a squared error over the entries of Y. With one label a row, the "
    "weight of a rare label "
    "in YᵀΠY grows with the square of its count: one factor is the number of its rows, the other "
    "is how much of them a "
    "ridge regression predicts, which for few rows is proportional to their number too. So the "
    "leading k directions "
    "belong to the frequent labels. Where rows have several labels, long rows dominate the squared "
    "error (5 % of the "
    "rows of `nvd-versions` hold half of the entries), while P@1 counts all rows alike. Random "
    "vectors (CS) spread "
    "their error evenly. Dividing the columns of Y by a power β of the label counts, and its rows "
    "by a power of their "
    "number of labels, before the embedding, gives rare labels and short rows more weight. No "
    "power is best "
    "everywhere, so both are chosen on rows that were held out before the embedding."
)


def sections(lines: list[Line]) -> list[str]:
    """Return the section as paragraphs; none without results."""
    if not lines:
        return []
    first, *rest = lines
    done: Lines = {line["key"]: line for line in rest if "failed" not in line}
    parts = ["## Scaling labels and rows", WHY]
    machines = list(
        dict.fromkeys(f"{line['machine']} ({line['device']})" for line in done.values())
    )
    parts.append("Measured on: " + "; ".join(machines) + ".")
    if first["rows"] is not None:
        parts.append(
            f"**Trial run** on about {first['rows']:,} rows of each set: it shows that everything "
            "works."
        )
    for title, text, table in (
        ("Choice on held-out rows", CHOICE, _choice(done)),
        ("Test rows, logistic decoder", FINAL, _final(done)),
        ("Difficulty", DIFFICULTY, _difficulty(done)),
        ("Choice on every data set", SETS, _sets(done)),
        ("Stopping rows and new rows", STOPPING, _stopping(done)),
    ):
        if len(table) > 1:
            parts += [f"### {title}", text, _markdown(table)]
            if text == DIFFICULTY and curve(lines):
                parts += [_gaps(done), f"![{title}]({IMAGE})"]
    return parts


CHOICE = (
    "P@1 (%) at k = 300 with a ridge decoder on training rows that were held out before the "
    "embedding, one seed. "
    "β / row are the powers; the best of each line is in bold. `nvd-versions` is decoded through "
    "4,000 random features."
)
FINAL = (
    "P@1 (%), which is 100 % less the error, on the test rows with the logistic decoders of the "
    "experiments ODP and "
    "LSHTC, fitted to all training rows: mean over the seeds, with their number and, from two on, "
    "their range. The "
    "scaling is the one that the held-out rows chose. `steps` is the largest number of conjugate "
    "gradient steps of a "
    "regression; only lines with the same number compare methods. Ten are the default of the "
    "classifier. Four leave "
    "the regression on `mesh` unfinished: RE and CCA lose some points there, and CS gains one or "
    "two."
)
DIFFICULTY = (
    "P@1 (%) of `mesh` on the test rows at k = 300 without a share of the n-grams, drawn at "
    "random; seed 0. ODP is "
    "much harder than `mesh`: RE has an error of 83 % there. If difficulty were what makes RE "
    "better than CS on ODP, "
    "their order would change where the error on `mesh` is that large. Points with different "
    "numbers of steps are not "
    "strictly comparable. Dropping n-grams makes rows harder to tell apart, but leaves the counts "
    "of labels as they "
    "are: `mesh` has three rows a label. Few rows a label are the likely reason for the order, by "
    "the argument above; "
    "this experiment varies difficulty only and does not test that."
)
SETS = (
    "P@1 (%) of RE on the test rows, with a ridge decoder. All scalings are fitted without the "
    "held-out rows. `best` "
    "is the scaling with the best test rows. The others did not see them: the scaling with the "
    "best held-out rows, and "
    'the one of `label_power="auto"` and `row_power="auto"`, which is the same for every set.'
)
STOPPING = (
    "P@1 (%) of `mesh` with 5,000 classes, k = 100: training rows whose loss stops the logistic "
    "fit, rows that were "
    "held out before the embedding, and test rows, with standard errors."
)


def _choice(done: Lines) -> list[list[str]]:
    grid: list[Scaling] = [job.scaling for job in choosing(MAIN[1], "RE")]
    table = [["data", "method", *[f"{label:g} / {row:g}" for label, row in grid]]]
    for name in MAIN:
        for method in (*METHODS, OWN_RIDGE):
            found = {tuple(job.scaling): done.get(job.key) for job in choosing(name, method)}
            known = {scaling: line for scaling, line in found.items() if line is not None}
            best = best_scaling(list(known.values())) if known else None
            cells = [
                _p1(known.get(scaling), "held", bold=len(known) > 1 and scaling == best)
                for scaling in grid
            ]
            table += [[name, method, *cells]] if known else []
    return table


def _final(done: Lines) -> list[list[str]]:
    table = [["data", "method", "β / row", "k", "steps", "P@1, test", "seeds", "range"]]
    groups: dict[tuple[Any, ...], list[float]] = {}
    for line in done.values():
        if line["stage"] == "final":
            group = (
                line["set"],
                line["k"],
                -line["max_iter"],
                line["method"],
                tuple(line["scaling"]),
            )
            groups.setdefault(group, []).append(100 * line["test"]["p@1"])
    order = (*METHODS, OWN_RIDGE)
    for (name, k, steps, method, scaling), values in sorted(
        groups.items(),
        key=lambda item: (
            MAIN.index(item[0][0]),
            *item[0][1:3],
            order.index(item[0][3]),
            item[0][4],
        ),
    ):
        spread = f"{min(values):.2f}–{max(values):.2f}" if len(values) > 1 else "–"
        cells = [
            _powers(scaling),
            str(k),
            str(-steps),
            f"{mean(values):.2f}",
            str(len(values)),
            spread,
        ]
        table.append([name, method, *cells])
    return table


@dataclass(frozen=True)
class Difficulty:
    """The results of a method on `mesh` without a share of its n-grams; None for what was not
    measured.
    """

    share: float
    method: str
    steps: int
    chosen: Scaling
    ridge: tuple[Line | None, Line | None]  # unscaled and with the chosen scaling
    logistic: tuple[Line | None, Line | None]


def difficulties(done: Lines) -> list[Difficulty]:
    """Return the results by share and method, with the usual number of steps where they are
    finished.
    """
    found = []
    for share, method in product((0.0, *DROPPED), ("RE", "CS")):
        for steps in (STEPS, FEW_STEPS):
            ridge = {
                job.scaling: done.get(job.key) for job in choosing("mesh", method, share, steps)
            }
            lines = [line for line in ridge.values() if line is not None]
            if len(lines) < len(ridge):
                continue
            best = best_scaling(lines)
            stage: Any = "difficulty" if share else "final"
            unscaled, scaled = (
                done.get(Job(stage, "mesh", method, scaling, K, "logistic", 0, share, steps).key)
                for scaling in (UNSCALED, best)
            )
            found.append(
                Difficulty(
                    share, method, steps, best, (ridge[UNSCALED], ridge[best]), (unscaled, scaled)
                )
            )
            break
    return found


def _difficulty(done: Lines) -> list[list[str]]:
    head = [
        "n-grams dropped",
        "method",
        "steps",
        "chosen β",
        "ridge, β = 0",
        "ridge, chosen β",
        "logistic, β = 0",
    ]
    table = [[*head, "logistic, chosen β"]]
    for d in difficulties(done):
        cells = [_p1(line, "test") for line in (*d.ridge, *d.logistic)]
        table.append([f"{100 * d.share:g} %", d.method, str(d.steps), f"{d.chosen[0]:g}", *cells])
    return table


def _gaps(done: Lines) -> str:
    """Say how far RE is from CS without scaling, at every share."""
    unscaled = {(d.share, d.method): d for d in difficulties(done) if d.logistic[0] is not None}
    gaps = []
    for share in (0.0, *DROPPED):
        re, cs = unscaled.get((share, "RE")), unscaled.get((share, "CS"))
        if re and cs and re.steps == cs.steps and re.logistic[0] and cs.logistic[0]:
            gap = 100 * (re.logistic[0]["test"]["p@1"] - cs.logistic[0]["test"]["p@1"])
            gaps.append(f"{gap:+.1f} at {100 * share:g} % ({re.steps} steps)")
    return (
        "P@1 of RE less that of CS, logistic and without scaling, by the share dropped: "
        f"{', '.join(gaps)}."
    )


def curve(lines: list[Line]) -> list[Line]:
    """Return the points of the figure over difficulty, as rows of results."""
    done: Lines = {line["key"]: line for line in lines[1:] if "failed" not in line}
    return [
        {
            "metric": CURVE.metric,
            "system": f"{d.method}, {what}",
            "at": 100 * (1 - d.share),
            "value": 100 * line["test"]["p@1"],
        }
        for d in difficulties(done)
        for what, line in zip(("β = 0", "chosen β"), d.logistic, strict=True)
        if line is not None
    ]


def _sets(done: Lines) -> list[list[str]]:
    table = [
        [
            "data",
            "best β / row",
            "best",
            "held-out rows chose",
            "P@1",
            "`auto`",
            "P@1",
            "standard error",
        ]
    ]
    for name in (*OTHERS, *MAIN):
        jobs = set_check(name)
        lines = {tuple(line["scaling"]): line for job in jobs if (line := done.get(job.key))}
        if len(lines) < len(jobs):
            continue
        best = max(lines.values(), key=lambda line: line["test"]["p@1"])
        cells = [_powers(best["scaling"]), _p1(best, "test")]
        for scaling in (best_scaling(list(lines.values())), usual_scaling(name)):
            cells += [_powers(scaling), _p1(lines[scaling], "test")]
        table.append([name, *cells, f"{100 * _standard_error(best['test']):.2f}"])
    return table


def _powers(scaling: Iterable[float]) -> str:
    return " / ".join(f"{power:g}" for power in scaling)


def _stopping(done: Lines) -> list[list[str]]:
    table = [["method", "stopping rows", "held-out rows", "test rows"]]
    for line in done.values():
        if line["stage"] == "stopping":
            parts = [line[part] for part in ("stopping", "held", "test")]
            table.append(
                [
                    line["method"],
                    *[f"{100 * p['p@1']:.1f} ± {100 * _standard_error(p):.1f}" for p in parts],
                ]
            )
    return table


def _standard_error(part: dict[str, Any]) -> float:
    """Return the standard error of P@1 over rows."""
    p = float(part["p@1"])
    return sqrt(p * (1 - p) / part["n"])


def _p1(line: Line | None, part: str, bold: bool = False) -> str:
    if line is None:
        return "–"
    text = f"{100 * line[part]['p@1']:.2f}"
    return f"**{text}**" if bold else text


def _markdown(table: Iterable[list[str]]) -> str:
    head, *rows = table
    rule = ["---" if i < 2 else "---:" for i in range(len(head))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, rule, *rows])
