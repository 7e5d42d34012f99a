"""The shortlist index compared with nearest-neighbour libraries: recall of the labels of full
decoding, and speed.

python -m benchmarks.shortlist [SET ...]   faiss-cpu, usearch and hnswlib are included if they are
installed

A ridge decoder of a label embedding is fitted to the set. Every index holds the columns of the
decoder with the bias appended, and is queried for the largest inner products with all test rows, on
all cores. The libraries solve this as a nearest-neighbour problem: an additional coordinate makes
all columns equally long. Graph indexes also run on inner products (ip).
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ranking import best_labels
from benchmarks.real_sets import FOLDER
from benchmarks.resident import now_bytes
from rembrandt import EmbeddingSettings

PLAIN = EmbeddingSettings(leave_out=0.5, label_power=0.0, row_power=0.0, tol=0.02)
SETS: dict[str, tuple[str, dict[str, Any]]] = {
    "nvd-versions": ("word", {"n_components": 200}),
    # The embedding is inaccurate, but the decoder has 190,057 columns.
    "mesh": (
        "char",
        {"n_components": 128, "embedding": replace(PLAIN, max_iter=4)},
    ),
}
ROWS = 6000  # test rows
CANDIDATES = 20  # labels that a library returns for a row; they are ranked by their exact scores
Search = Callable[[Any], Any]


def main(names: list[str] | None = None) -> dict[str, Any]:
    """Measure every index on every set, each in its own process."""
    results: dict[str, Any] = {}
    if not FOLDER.is_dir():
        print(
            f"skipped: there is no data at {FOLDER}; set REMBRANDT_DATA to the folder that holds "
            "nvd-cpe/ and mesh/"
        )
        return results
    for name in names or SETS:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "decoder.npz"
            facts = _child(["--prepare", name, str(file)])
            print(
                f"{name}: {facts['labels']:,} labels; full decoding: {facts['rows/s']:.0f} rows/s, "
                f"P@5 {facts['p@5']:.4f}"
            )
            print(
                f"{'index':<16}{'effort':>8}{'recall':>8}{'P@5':>8}{'rows/s':>8}{'CPU µs':>8}"
                f"{'build s':>9}{'CPU s':>8}{'GB':>6}"
            )
            results[name] = {"full": facts}
            for index in ("ours", *LIBRARIES):
                rows = _child(["--one", index, str(file)])
                results[name][index] = rows
                if isinstance(rows, str):
                    print(f"{index:<16}{rows}")
                    continue
                for row in rows:
                    print(
                        f"{index:<16}{row['effort']:>8}{row['recall']:>8.4f}{row['p@5'] / facts['p@5']:>8.4f}"
                        f"{row['rows/s']:>8.0f}{row['cpu us']:>8.0f}{row['build']:>9.1f}{row['build cpu']:>8.1f}"
                        f"{row['gigabytes']:>6.2f}",
                        flush=True,
                    )
    return results


def _child(arguments: list[str]) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.shortlist", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def prepare(name: str, file: Path) -> dict[str, Any]:
    """Fit the decoder, and store it with its predictions from the scores of all labels."""
    from rembrandt import RembrandtClassifier, TextFeatures
    from rembrandt.data import catalogue
    from rembrandt.estimators.requests import rows_of
    from rembrandt.metrics import precision_at_k

    analyzer, settings = SETS[name]
    fixed: dict[str, Any] = {
        "parts": ("embedding",),
        "decoder": "ridge",
        "decoder_ridge": 0.1,
        "kernel": None,
        "normalize": False,
        "embedding": PLAIN,
    }
    classifier = RembrandtClassifier(
        **fixed | settings, random_state=0, text=TextFeatures(analyzer=analyzer)
    )
    classifier.fit_dataset(catalogue.load(name, "train", folder=FOLDER))
    test = catalogue.load(name, "test", folder=FOLDER).align_labels(
        [str(label) for label in classifier.classes_]
    )
    test = test.rows(np.arange(min(ROWS, test.n_examples)))
    X = rows_of(classifier, test.inputs).features
    embedding = classifier.model_.parts["embedding"]
    best_labels(embedding, X[:10], 5)  # loads compiled code
    start = time.perf_counter()
    labels = best_labels(embedding, X, 5)
    seconds = time.perf_counter() - start
    np.savez(
        file,
        Q=embedding.decoder.weights,
        bias=embedding.decoder.bias,
        H=embedding.project(X),
        labels=labels,
        indptr=test.Y.indptr,
        indices=test.Y.indices,
    )
    return {
        "labels": len(classifier.classes_),
        "rows/s": test.n_examples / seconds,
        "p@5": precision_at_k(test.Y, labels, 5),
    }


def ours(Q: Any, bias: Any) -> Iterator[tuple[int, Search]]:
    """Search the clusters of `rembrandt.parts.embedding.shortlist`; effort: labels that are scored."""
    from rembrandt.parts.embedding.decoders.decoder import Decoder
    from rembrandt.parts.embedding.shortlist import Shortlist

    shortlist = Shortlist.build(Decoder(Q, bias, "identity"))
    _ = shortlist.layout  # made on first use
    for effort in (1000, 2000, 5000, 10_000):
        yield effort, lambda H, effort=effort: shortlist.top_k(H, 5, effort)[0]


def faiss_ivf(A: Any) -> Iterator[tuple[int, Search]]:
    """Search inverted lists, as many as our index has clusters; effort: lists probed."""
    import faiss

    from rembrandt.parts.embedding.shortlist import n_clusters

    index = faiss.IndexIVFFlat(
        faiss.IndexFlatL2(A.shape[1]), A.shape[1], n_clusters(len(A)), faiss.METRIC_L2
    )
    index.train(A)
    index.add(A)

    def search(rows: Any, effort: int) -> Any:
        index.nprobe = effort
        return index.search(rows, CANDIDATES)[1]

    for effort in (16, 64, 128, 256):
        yield effort, partial(search, effort=effort)


def faiss_hnsw(A: Any, products: bool = False) -> Iterator[tuple[int, Search]]:
    """Search a graph of neighbours; effort: nodes kept during the search."""
    import faiss

    index = faiss.IndexHNSWFlat(
        A.shape[1], 16, faiss.METRIC_INNER_PRODUCT if products else faiss.METRIC_L2
    )
    index.hnsw.efConstruction = 100
    index.add(A)

    def search(rows: Any, effort: int) -> Any:
        index.hnsw.efSearch = effort
        return index.search(rows, CANDIDATES)[1]

    for effort in (100, 400):
        yield effort, partial(search, effort=effort)


def hnswlib(A: Any, products: bool = False) -> Iterator[tuple[int, Search]]:
    """Search a graph of neighbours; effort: nodes kept during the search."""
    import hnswlib

    index = hnswlib.Index("ip" if products else "l2", A.shape[1])
    index.init_index(len(A), ef_construction=100, M=16)
    index.add_items(A)

    def search(rows: Any, effort: int) -> Any:
        index.set_ef(effort)
        return index.knn_query(rows, CANDIDATES)[0]

    for effort in (100, 400):
        yield effort, partial(search, effort=effort)


def usearch(A: Any, products: bool = False) -> Iterator[tuple[int, Search]]:
    """Search a graph of neighbours; effort: nodes kept during the search."""
    from usearch.index import Index

    index = Index(
        ndim=A.shape[1],
        metric="ip" if products else "l2sq",
        dtype="f32",
        connectivity=16,
        expansion_add=100,
    )
    index.add(np.arange(len(A)), A)

    def search(rows: Any, effort: int) -> Any:
        index.expansion_search = effort
        return index.search(rows, CANDIDATES).keys

    for effort in (100, 400):
        yield effort, partial(search, effort=effort)


LIBRARIES = {
    "faiss IVF": ("faiss", faiss_ivf),
    "faiss HNSW": ("faiss", faiss_hnsw),
    "faiss HNSW, ip": ("faiss", partial(faiss_hnsw, products=True)),
    "hnswlib": ("hnswlib", hnswlib),
    "hnswlib, ip": ("hnswlib", partial(hnswlib, products=True)),
    "usearch": ("usearch", usearch),
    "usearch, ip": ("usearch", partial(usearch, products=True)),
}


def one(name: str, file: Path) -> list[dict[str, Any]] | str:
    """Measure an index at each effort, in this process."""
    from scipy import sparse

    from rembrandt.metrics import precision_at_k

    package, make = LIBRARIES.get(name, ("rembrandt", None))
    if find_spec(package) is None:
        return f"skipped: {package} is not installed"
    with np.load(file) as stored:
        Q, bias, H, labels, indptr, indices = (
            stored[n] for n in ("Q", "bias", "H", "labels", "indptr", "indices")
        )
    truth = sparse.csr_array(
        (np.ones(len(indices), np.float32), indices, indptr), shape=(len(H), len(bias))
    )
    columns = np.ascontiguousarray(np.vstack([Q, bias[None].astype(Q.dtype)]).T)
    rows = np.hstack([H, np.ones((len(H), 1), H.dtype)])
    asked, given = H, None
    if make is not None:
        given = _equally_long(columns)
        longest = np.linalg.norm(
            given[0]
        )  # all columns have this length; scaling a row does not change its ranking
        asked = np.hstack(
            [
                rows * (longest / np.linalg.norm(rows, axis=1, keepdims=True)),
                np.zeros((len(H), 1), H.dtype),
            ]
        )
    before, start, start_cpu = now_bytes(), time.perf_counter(), time.process_time()
    found_rows: list[dict[str, Any]] = []
    build = build_cpu = gigabytes = None
    for effort, search in ours(Q, bias) if make is None else make(given):
        if build is None:
            build, gigabytes = time.perf_counter() - start, (now_bytes() - before) / 2**30
            build_cpu = time.process_time() - start_cpu
        search(asked[:64])
        start, cpu = time.perf_counter(), time.process_time()
        found = np.asarray(search(asked)).astype(np.int64)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        best = _first_five(found, rows, columns)
        recall = float((labels[:, :, None] == best[:, None, :]).any(axis=2).mean())
        found_rows.append(
            {
                "effort": effort,
                "recall": recall,
                "p@5": precision_at_k(truth, best, 5),
                "rows/s": len(H) / seconds,
                "cpu us": 1e6 * cpu / len(H),
                "build": build,
                "build cpu": build_cpu,
                "gigabytes": gigabytes,
            }
        )
    return found_rows


def _first_five(found: Any, rows: Any, columns: Any) -> Any:
    """Return the best five of the labels that an index returned, by exact scores."""
    scores = np.array(
        [columns[np.maximum(own, 0)] @ row for own, row in zip(found, rows, strict=True)]
    )
    order = np.argsort(-np.where(found < 0, -np.inf, scores), axis=1, kind="stable")[:, :5]
    return np.take_along_axis(found, order, axis=1)


def _equally_long(A: Any) -> Any:
    """Append a coordinate, so that the nearest column to a row is the one with the largest inner
    product.
    """
    squares = np.einsum("ij,ij->i", A, A)
    return np.hstack([A, np.sqrt(np.maximum(squares.max() - squares, 0))[:, None].astype(A.dtype)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=f"which sets; all of {', '.join(SETS)} by default")
    parser.add_argument("--prepare", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.prepare:
        print(json.dumps(prepare(arguments.prepare[0], Path(arguments.prepare[1]))))
    elif arguments.one:
        print(json.dumps(one(arguments.one[0], Path(arguments.one[1]))))
    else:
        main(arguments.names)
