"""The section of the report on scaling labels and rows, from the lines of ``scaling.jsonl``."""

from collections.abc import Iterable
from math import sqrt
from statistics import mean
from typing import Any

from benchmarks.paper.scaling_jobs import (
    DROPPED,
    MAIN,
    METHODS,
    OTHERS,
    OWN_RIDGE,
    UNSCALED,
    Job,
    Scaling,
    automatic,
    best_scaling,
    choosing,
    set_check,
)

FILE = "scaling.jsonl"
Line = dict[str, Any]
Lines = dict[str, Line]

WHY = (
    "Every embedding minimises a squared error over the entries of Y. With one label a row, the weight of a rare label "
    "in YᵀΠY grows with the square of its count: one factor is the number of its rows, the other is how much of them a "
    "ridge regression predicts, which for few rows is proportional to their number too. So the leading k directions "
    "belong to the frequent labels. Where rows have several labels, long rows dominate the squared error (5 % of the "
    "rows of `nvd-versions` hold half of the entries), while P@1 counts all rows alike. Random vectors (CS) spread "
    "their error evenly. Dividing the columns of Y by a power β of the label counts, and its rows by a power of their "
    "number of labels, before the embedding, gives rare labels and short rows more weight. No power is best "
    "everywhere, so both are chosen on rows that were held out before the embedding."
)


def sections(lines: list[Line]) -> list[str]:
    """Return the section as paragraphs; none without results."""
    if not lines:
        return []
    first, *rest = lines
    done: Lines = {line["key"]: line for line in rest if "failed" not in line}
    parts = ["## Scaling labels and rows", WHY]
    machines = list(dict.fromkeys(f"{line['machine']} ({line['device']})" for line in done.values()))
    parts.append("Measured on: " + "; ".join(machines) + ".")
    if first["rows"] is not None:
        parts.append(f"**Trial run** on about {first['rows']:,} rows of each set: it shows that everything works.")
    for title, text, table in (
        ("Choice on held-out rows", CHOICE, _choice(done)),
        ("Test rows, logistic decoder", FINAL, _final(done)),
        ("Difficulty", DIFFICULTY, _difficulty(done)),
        ("Choice on every data set", SETS, _sets(done)),
        ("Stopping rows and new rows", STOPPING, _stopping(done)),
    ):
        if len(table) > 1:
            parts += [f"### {title}", text, _markdown(table)]
    return parts


CHOICE = (
    "P@1 (%) at k = 300 with a ridge decoder on training rows that were held out before the embedding, one seed. "
    "β / row are the powers; the best of each line is in bold. `nvd-versions` is decoded through 4,000 random features."
)
FINAL = (
    "P@1 (%) on the test rows with the logistic decoders of the experiments ODP and LSHTC, fitted to all training "
    "rows: mean over the seeds, with their number and range. The scaling is the one that the held-out rows chose."
)
DIFFICULTY = (
    "P@1 (%) of `mesh` on the test rows at k = 300 without a share of the n-grams, drawn at random. ODP is much harder "
    "than `mesh`; this shows what difficulty does to the order of RE and CS."
)
SETS = (
    "P@1 (%) of RE on the test rows, with a ridge decoder. All scalings are fitted without the held-out rows. `best` "
    "is the scaling with the best test rows. The others did not see them: the scaling with the best held-out rows, and "
    'the one that `label_power="auto"` and `row_power="auto"` choose on a sample of the training rows.'
)
STOPPING = (
    "P@1 (%) of `mesh` with 5,000 classes, k = 100: training rows whose loss stops the logistic fit, rows that were "
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
            cells = [_p1(known.get(scaling), "held", bold=len(known) > 1 and scaling == best) for scaling in grid]
            table += [[name, method, *cells]] if known else []
    return table


def _final(done: Lines) -> list[list[str]]:
    table = [["data", "method", "β / row", "k", "P@1, test", "seeds", "range"]]
    groups: dict[tuple[Any, ...], list[float]] = {}
    for line in done.values():
        if line["stage"] == "final":
            group = line["set"], line["k"], line["method"], tuple(line["scaling"])
            groups.setdefault(group, []).append(100 * line["test"]["p@1"])
    order = (*METHODS, OWN_RIDGE)
    for (name, k, method, (label, row)), values in sorted(
        groups.items(), key=lambda item: (MAIN.index(item[0][0]), item[0][1], order.index(item[0][2]), item[0][3])
    ):
        spread = f"{min(values):.2f}–{max(values):.2f}" if len(values) > 1 else "–"
        table.append([name, method, f"{label:g} / {row:g}", str(k), f"{mean(values):.2f}", str(len(values)), spread])
    return table


def _difficulty(done: Lines) -> list[list[str]]:
    table = [
        [
            "n-grams dropped",
            "method",
            "ridge, β = 0",
            "chosen β",
            "ridge, chosen β",
            "logistic, β = 0",
            "logistic, chosen β",
        ]
    ]
    for share in (0.0, *DROPPED):
        for method in ("RE", "CS"):
            jobs = choosing("mesh", method, share)
            ridge = [line for job in jobs if (line := done.get(job.key))]
            if len(ridge) < len(jobs):
                continue
            best = best_scaling(ridge)
            chosen = next(line for line in ridge if tuple(line["scaling"]) == best)
            decoded = []
            for scaling in (UNSCALED, best):
                stage: Any = "difficulty" if share else "final"
                job = Job(stage, "mesh", method, scaling, decoder="logistic", dropped=share)
                decoded.append(_p1(done.get(job.key), "test"))
            unscaled = _p1(done.get(jobs[0].key), "test")
            table.append([f"{100 * share:g} %", method, unscaled, f"{best[0]:g}", _p1(chosen, "test"), *decoded])
    return table


def _sets(done: Lines) -> list[list[str]]:
    table = [["data", "best β / row", "best", "held-out rows chose", "P@1", "`auto` chose", "P@1", "standard error"]]
    for name in (*OTHERS, *MAIN):
        jobs = set_check(name)
        lines = {tuple(line["scaling"]): line for job in jobs if (line := done.get(job.key))}
        if len(lines) < len(jobs):
            continue
        best = max(lines.values(), key=lambda line: line["test"]["p@1"])
        auto = done.get(automatic(name).key)
        cells = [_powers(best["scaling"]), _p1(best, "test")]
        for chosen in (best_scaling(list(lines.values())), None if auto is None else tuple(auto["chosen"])):
            cells += ["–", "–"] if chosen is None else [_powers(chosen), _p1(lines[chosen], "test")]
        table.append([name, *cells, f"{100 * _standard_error(best['test']):.2f}"])
    return table


def _powers(scaling: Iterable[float]) -> str:
    return " / ".join(f"{power:g}" for power in scaling)


def _stopping(done: Lines) -> list[list[str]]:
    table = [["method", "stopping rows", "held-out rows", "test rows"]]
    for line in done.values():
        if line["stage"] == "stopping":
            parts = [line[part] for part in ("stopping", "held", "test")]
            table.append([line["method"], *[f"{100 * p['p@1']:.1f} ± {100 * _standard_error(p):.1f}" for p in parts]])
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
