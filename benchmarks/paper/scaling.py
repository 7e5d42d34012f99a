"""Does scaling labels and rows before the embedding help, and which embedding is best then?

Every embedding is fitted to ``D_r^-row Y D_c^-β``, where ``D_c`` holds the counts of labels and
``D_r`` the numbers of labels of rows. The powers are chosen with a ridge decoder on rows that were
held out before the embedding. Then each method is measured without scaling and with its chosen
scaling, with the logistic decoder of the other experiments.

    python -m benchmarks.paper.scaling --device cuda --minutes 9 --output DIR

Each result is appended to ``scaling.jsonl`` in the output folder as soon as it is known, most
important first. The same command with the same folder continues. ``python -m benchmarks.paper
report`` shows the results that are in its folder.
"""

import argparse
import gc
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from benchmarks.complete import embedding_settings
from benchmarks.paper.fits import METHODS
from benchmarks.paper.scaling_data import Prepared, Rows, Store
from benchmarks.paper.scaling_jobs import (
    LABEL_RIDGE,
    MAIN,
    OTHERS,
    OWN_RIDGE,
    STAGES,
    SUBSET,
    Job,
    Results,
    plan,
)
from benchmarks.paper.scaling_report import FILE
from benchmarks.ranking import best_labels
from benchmarks.results import described, machine
from rembrandt import __version__
from rembrandt.data.examples import Examples
from rembrandt.engines.backend import Backend, backend_for
from rembrandt.errors import RembrandtError, SettingsError
from rembrandt.metrics import precision_at_k
from rembrandt.parts.embedding.decoders.logistic import stopping_rows
from rembrandt.parts.embedding.fit import embed_labels, fit_decoder, hold_out
from rembrandt.parts.embedding.part import LabelEmbedding
from rembrandt.parts.embedding.settings import EmbeddingSettings
from rembrandt.parts.protocol import Fitting

KS = (1, 3, 5)
EPOCHS = {"mesh": 20, "nvd-versions": 15}  # as in the experiments `odp` and `lshtc`
RANDOM_FEATURES = 4000  # of nvd-versions, as in `lshtc`
GUESS = 30.0  # seconds of a fit before one of its kind was timed


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line, run the fits that are missing and return an exit code."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.paper.scaling",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "-o",
        "--output",
        type=Path,
        default=Path("bench-results/paper"),
        metavar="DIR",
        help=f"Folder of {FILE}.",
    )
    add(
        "--data",
        type=Path,
        metavar="DIR",
        help="Folder of the data sets [default: the variable REMBRANDT_DATA].",
    )
    add(
        "--cache",
        type=Path,
        metavar="DIR",
        help="Folder of the prepared features [default: cache in the output].",
    )
    add(
        "--device",
        default="cpu",
        metavar="D",
        help="cpu, cuda, cuda:1, several with commas, or auto.",
    )
    add(
        "--minutes",
        type=float,
        default=float("inf"),
        metavar="M",
        help="Start no fit that would end later.",
    )
    add(
        "--stages",
        default="",
        metavar="NAMES",
        help=f"Only these, separated by commas: {', '.join(STAGES)}.",
    )
    add(
        "--sets",
        default="",
        metavar="NAMES",
        help="Only these data sets, separated by commas; one process for each.",
    )
    add(
        "--rows",
        type=int,
        metavar="N",
        help="Use about N training rows of each set, to try the experiment.",
    )
    add("--rank", type=int, metavar="K", help="Largest rank, to try the experiment.")
    given = parser.parse_args(arguments)
    try:
        return run(given)
    except RembrandtError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def run(given: argparse.Namespace) -> int:
    """Run the fits that fit into the time; return 1 if one failed."""
    began = time.perf_counter()
    given.output.mkdir(parents=True, exist_ok=True)
    backend = backend_for(given.device)
    results = Results(
        given.output / FILE, {"rembrandt": __version__, "rows": given.rows, "rank": given.rank}
    )
    about = {"machine": described(machine(backend.device)), "device": backend.device}
    stages, sets = (
        [name for name in names.split(",") if name] for names in (given.stages, given.sets)
    )
    names = [SUBSET] if stages == ["stopping"] else [*MAIN, SUBSET, *OTHERS]
    unknown = [name for name in sets if name not in names]
    if unknown:
        raise SettingsError(
            f"this experiment has no data set {unknown[0]!r}; choose from {', '.join(names)}"
        )
    names = [name for name in names if not sets or name in sets]
    failed = skipped = 0
    with Store(names, given.data, given.cache or given.output / "cache", given.rows) as store:
        for job in plan(results):
            if job in results or job.set not in names or (stages and job.stage not in stages):
                continue
            elapsed = time.perf_counter() - began
            if elapsed + (results.seconds(job.kind) or GUESS) > 60 * given.minutes:
                skipped += 1
                continue
            try:
                found = measure(job, store[job.set, job.dropped], backend, given.rank)
            except Exception as error:  # noqa: BLE001, one failure must not cost the fits after it; it is counted
                traceback.print_exc()
                found = {"failed": f"{type(error).__name__}: {error}"}
                failed += 1
            results.add(job, found | about)
            print(f"{time.perf_counter() - began:7.1f} s  {_line(job, found)}", flush=True)
            _release()
    print(
        f"{len(results.lines)} results in {results.path}; {failed} fits failed, no time for "
        f"{skipped}",
        flush=True,
    )
    return 1 if failed else 0


def measure(job: Job, data: Prepared, backend: Backend, most: int | None = None) -> dict[str, Any]:
    """Fit as the job says and return the precision on held-out rows and test rows, with the time of
    the fit.
    """
    begin = time.perf_counter()
    rows, held = (None, None) if job.stage == "final" else data.held_out()
    embedding = fit(data.examples(rows), settings_of(job, data, most), job.seed, backend)
    seconds = time.perf_counter() - begin
    found: dict[str, Any] = {"seconds": seconds}
    if rows is not None and held is not None:
        found["held"] = precision(embedding, (data.X[held], data.Y[held]))
    if rows is not None and job.stage == "stopping":
        stopping = rows[stopping_rows(data.Y[rows], None, data.multiclass, job.seed)]
        found["stopping"] = precision(embedding, (data.X[stopping], data.Y[stopping]))
    found["test"] = precision(embedding, data.test)
    return found


def settings_of(job: Job, data: Prepared, most: int | None = None) -> EmbeddingSettings:
    """Return the settings of a fit. The decoder is that of the experiments `odp` and `lshtc`."""
    label_power, row_power = job.scaling
    return embedding_settings(
        n_components=min(job.k, data.Y.shape[1], most or job.k),
        method="cca" if job.method == OWN_RIDGE else METHODS[job.method],
        decoder=job.decoder,
        decoder_ridge=0.1 if job.decoder == "ridge" else 0.0,
        kernel="laplacian" if job.set == "nvd-versions" else None,
        label_power=label_power,
        row_power=row_power,
        label_ridge=LABEL_RIDGE if job.method == OWN_RIDGE else None,
        leave_out=0.0,
        kernel_scale=1.0,
        n_random_features=min(RANDOM_FEATURES, 10 * most) if most else RANDOM_FEATURES,
        max_iter=job.max_iter,
        max_epochs=EPOCHS.get(job.set, EPOCHS["mesh"]),
    )


def fit(data: Examples, settings: EmbeddingSettings, seed: int, backend: Backend) -> LabelEmbedding:
    """Fit Algorithm 3. The arrays stay on the device."""
    stopping, embedded_examples = hold_out(data, settings, seed)
    embedded = embed_labels(embedded_examples, settings, seed, backend)
    fitting = Fitting(seed=seed, backend=backend)
    decoder = fit_decoder(embedded, data, settings, fitting, stopping=stopping)
    return LabelEmbedding(
        embedded.projection,
        decoder,
        embedded.embedding.V,
        embedded.embedding.sigma,
        backend=backend,
    )


def precision(embedding: LabelEmbedding, rows: Rows) -> dict[str, Any]:
    """Return P@k over rows; labels that have no training row count as missed."""
    X, Y = rows
    labels = best_labels(embedding, X, max(KS))
    return {f"p@{k}": float(precision_at_k(Y, labels, k)) for k in KS} | {"n": int(X.shape[0])}


def _line(job: Job, found: dict[str, Any]) -> str:
    """Describe a result."""
    what = (
        f"{job.stage} {job.set} {job.method} β={job.scaling[0]:g} row={job.scaling[1]:g} k={job.k} "
        f"{job.decoder}"
    )
    what += f" seed={job.seed}" + (f" dropped={job.dropped:g}" if job.dropped else "")
    if "failed" in found:
        return f"{what}: FAILED, {found['failed']}"
    figures = " ".join(
        f"{part} {100 * found[part]['p@1']:.2f}"
        for part in ("stopping", "held", "test")
        if part in found
    )
    return f"{what}: P@1 {figures} in {found['seconds']:.1f} s"


def _release() -> None:
    """Free the memory that the last fit took on a GPU."""
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_available():
        gc.collect()
        sys.modules["torch"].cuda.empty_cache()


if __name__ == "__main__":
    sys.exit(main())
