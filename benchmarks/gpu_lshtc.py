"""Data of LSHTC's shape on a GPU: the time and quality of an embedding, an epoch, the whole job and
prediction.

python -m benchmarks.gpu_lshtc [--device cuda] [--only
embed,epoch,job,inference,precision,aloi,pubmed] [--scale 1]

Each time comes with the counted work and its share of the measured peak of the device: copies of
its memory, and products in bfloat16. An epoch also comes with the share of its own products,
measured in the same shapes and for as long that the clock of the device settles. ``--scale 0.001 --device cpu,cpu`` runs the same code without
a GPU.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.complete import embedding_alone, embedding_settings
from benchmarks.gpu_data import Data, generate
from benchmarks.ranking import best_labels
from benchmarks.results import machine
from rembrandt import RembrandtClassifier
from rembrandt.data import catalogue
from rembrandt.data.examples import Examples
from rembrandt.data.rows import as_rows
from rembrandt.engines.backend import backend_for
from rembrandt.engines.descent import LogisticProblem
from rembrandt.engines.torch import TorchEngine
from rembrandt.engines.torch_backend import TorchBackend
from rembrandt.engines.torch_descent import ALIGNED, TorchDescent
from rembrandt.engines.whitening import Whitening
from rembrandt.evaluation import measure
from rembrandt.features.fourier import draw
from rembrandt.fitting import fit_model
from rembrandt.forks import cached_property
from rembrandt.linalg.blocks import as_numpy, has_triton, spans
from rembrandt.metrics import precision_at_k, top_k
from rembrandt.model.model import Model
from rembrandt.parts.embedding.decoders.decoder import Decoder
from rembrandt.parts.embedding.decoders.logistic import LogisticSettings
from rembrandt.parts.embedding.fit import embed_labels, fit_decoder
from rembrandt.parts.embedding.part import LabelEmbedding
from rembrandt.parts.embedding.settings import EmbeddingSettings
from rembrandt.parts.embedding.solve import embed
from rembrandt.parts.protocol import Fitting

PARTS = ("embed", "epoch", "job", "inference", "precision", "aloi", "pubmed")


class Bench:
    """All parts on one device at one scale; data and embeddings are computed once."""

    def __init__(self, device: str, scale: float, tol: float, epochs: int) -> None:
        backend = backend_for(device)
        if not isinstance(backend, TorchBackend):
            raise SystemExit(
                f"--device {device} does not use torch; use cuda, or cpu,cpu without a GPU"
            )
        self.backend, self.scale, self.tol, self.epochs = backend, scale, tol, epochs

    @cached_property
    def data(self) -> Data:
        start = time.perf_counter()
        data = generate(self.scale, self.backend.first)
        shape = (
            f"{data.X.shape[0]:,} × {data.X.shape[1]:,}, {data.X.nnz:,} non-zeros, "
            f"{data.Y.shape[1]:,} labels"
        )
        print(f"data: {shape}, generated in {time.perf_counter() - start:.1f} s", flush=True)
        return data

    @cached_property
    def examples(self) -> Examples:
        return Examples(
            as_rows(self.data.X), self.data.Y, np.arange(self.data.Y.shape[1]), multiclass=False
        )

    def small(self, full: int) -> int:
        """Return a size that decreases with the scale of the data."""
        return max(8, round(full * min(1.0, self.scale**0.5)))

    def timed(
        self, work: Callable[..., Any], *given: Any, **more: Any
    ) -> tuple[Any, float, float | None]:
        """Return the result of ``work``, its seconds, and the peak memory of the device in GB."""
        cuda = self.backend.first.type == "cuda"
        if cuda:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        found = work(*given, **more)
        if cuda:
            torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        return found, seconds, torch.cuda.max_memory_allocated() / 1e9 if cuda else None

    @cached_property
    def roofline(self) -> dict[str, float]:
        """Measured peak of the device: bytes and operations per second."""
        cuda = self.backend.first.type == "cuda"
        size = 8192 if cuda else 256
        A = torch.randn(size, size, device=self.backend.first, dtype=torch.bfloat16)
        source = torch.empty(
            (1 << 30) if cuda else 1 << 22, device=self.backend.first, dtype=torch.uint8
        )
        target, product = torch.empty_like(source), torch.empty_like(A)
        copy = min(self.timed(target.copy_, source)[1] for _ in range(10))
        times = min(
            self.timed(lambda: [torch.mm(A, A, out=product) for _ in range(10)])[1]
            for _ in range(5)
        )
        return {
            "bytes_per_second": 2 * len(source) / copy,
            "flops_per_second": 10 * 2 * size**3 / times,
        }

    def embed(self) -> dict[str, Any]:
        """Measure the embedding with the settings of the paper and with those of the authors'
        log.
        """
        results = {}
        for name, k, n_iter, max_iter in (
            ("k = 500, q = 1", 500, 1, 10),
            ("k = 800, q = 2", 800, 2, 50),
        ):
            settings = embedding_settings(
                n_components=self.small(k),
                n_iter=n_iter,
                max_iter=max_iter,
                tol=self.tol,
                solver="pcg",
            )
            with self.backend.session():
                engine, placing, _ = self.timed(
                    Counted, self.data.X, self.data.Y, devices=self.backend.devices, constant=True
                )
                # Loads, sorts and compiles once.
                embed(engine, replace(settings, n_iter=0, max_iter=2), seed=0)
                engine.columns.clear()
                stages: dict[int, float] = {}

                def note(
                    stage: str, done: int, total: int | None, stages: dict[int, float] = stages
                ) -> None:
                    if stage.startswith("embedding"):
                        if self.backend.first.type == "cuda":
                            torch.cuda.synchronize()
                        stages[done] = time.perf_counter()

                began = time.perf_counter()
                found, seconds, memory = self.timed(embed, engine, settings, 0, note)
            work = engine.work()
            results[name] = {
                "seconds": seconds,
                "seconds_to_V": stages[1]
                - began,  # the rest is the regression of YV and its leverage
                "placing_seconds": placing,
                "gigabytes": memory,
                "residual": found.residual,
                "iterations": found.iterations,
                **work,
                "share_of_bandwidth": work["bytes"] / seconds / self.roofline["bytes_per_second"],
            }
            del engine, found
        return results

    def epoch(self) -> dict[str, Any]:
        """Measure one pass of the logistic fit over all labels, on 500 linear and 3,500 random
        features.
        """
        with self.backend.session():
            return {
                "all features": self._epoch(dropout=0.0),
                "half dropped": self._epoch(dropout=0.5),
            }

    def _epoch(self, dropout: float) -> dict[str, Any]:
        """Measure a second epoch, after one that loads kernels, and the products of its steps
        alone.
        """
        H, fourier = self._mapped
        n, c = self.data.Y.shape
        w = np.ones(n)
        counts = np.bincount(self.data.Y.indices, minlength=c)
        rates = np.clip(counts / n, 0.5 / n, 1)
        rows = np.arange(n // 100, n)
        held = np.arange(min(5000, n // 100))
        settings = LogisticSettings(multiclass=False, dropout=dropout)
        whitening, whitening_seconds, _ = self.timed(
            lambda: Whitening.of(self.backend.statistics(H, None, fourier, w), 1e-4, H.dtype)
        )
        problem = LogisticProblem(whitening, H, self.data.Y, w, rates, settings, len(rows))
        descent, placing, _ = self.timed(self.backend.descent, problem)
        rng = np.random.default_rng(0)
        steps = len(rows) // descent.batch
        size = whitening.size
        times = []
        for _ in range(2):
            shuffled = rng.permutation(rows)[: steps * descent.batch]
            order = np.sort(shuffled.reshape(steps, -1), axis=1)
            kept = [np.sort(rng.permutation(size)[: size // 2]) if dropout else None for _ in order]
            _, seconds, memory = self.timed(descent.epoch, order, kept, 1.0)
            times.append(seconds)
        loss, loss_seconds, _ = self.timed(descent.loss, held)
        width = (size if not dropout else size // 2) + 1
        flops = 4.0 * steps * descent.batch * width * c
        products = steps * self._seconds_of_products(descent, width)
        return {
            "seconds": times[1],
            "first_seconds": times[0],
            "products_seconds": products,
            "whitening_seconds": whitening_seconds,
            "placing_seconds": placing,
            "loss_seconds": loss_seconds,
            "loss": loss,
            "gigabytes": memory,
            "features": size,
            "batch": descent.batch,
            "flops": flops,
            "share_of_flops": flops / times[1] / self.roofline["flops_per_second"],
            "share_of_products": products / times[1],
        }

    def _seconds_of_products(self, descent: TorchDescent, width: int, steps: int = 20) -> float:
        """Return the seconds of the two products of a step, in its shapes and without its other
        passes.

        Many steps are timed together: a device lowers its clock when it multiplies for long, which
        the short products of the measured peak do not show.
        """
        if descent.compute == torch.bfloat16:
            width += -width % ALIGNED
        operands = []
        for shard in descent.shards:
            options = {"dtype": descent.compute, "device": shard.device}
            features = torch.randn(descent.batch, width, **options)
            weights = torch.randn(width, shard.width, **options)
            operands.append((features, weights, shard))

        def multiply() -> None:
            for _ in range(steps):
                for features, weights, shard in operands:
                    for labels in spans(shard.width, shard.chunk):
                        logits = features @ weights[:, labels]
                        features.T @ logits

        return self.timed(multiply)[1] / steps

    @cached_property
    def _mapped(self) -> tuple[Any, Any]:
        k = self.small(500)
        settings = embedding_settings(n_components=k)
        embedded = embed_labels(self.examples, settings, 0, self.backend)
        H = embedded.project(self.examples.X, self.backend)
        return H, draw("gaussian", H, self.small(4000) - H.shape[1])

    def job(self) -> dict[str, Any]:
        """Measure the complete fit of the authors: k = 800, 4,000 features, at most 20 epochs with
        early stopping.
        """
        self.__dict__.pop("_mapped", None)
        k = self.small(800)
        settings = self._logistic(
            k, self.small(4000) - k, n_iter=2, max_iter=50, tol=self.tol, leave_out=0.5
        )
        model_settings = embedding_alone(settings)
        stages: dict[str, float] = {}

        def report(stage: str, done: int, total: int | None) -> None:
            stages.setdefault(stage, time.perf_counter())
            print(f"  {stage} {done}/{total}", end="\r", flush=True)

        start = time.perf_counter()
        model, seconds, memory = self.timed(
            lambda: fit_model(self.examples, model_settings, backend=self.backend, report=report)
        )
        return {
            "seconds": seconds,
            "gigabytes": memory,
            "began": {stage: at - start for stage, at in stages.items()},
            **self._quality(model),
        }

    def _logistic(self, k: int, features: int, **values: Any) -> EmbeddingSettings:
        """Return the settings of Algorithm 3 with random Fourier features."""
        return embedding_settings(
            n_components=k,
            decoder="logistic",
            decoder_ridge=0.0,
            kernel="gaussian",
            n_random_features=features,
            max_epochs=self.epochs,
            **values,
        )

    def _quality(self, model: Model) -> dict[str, float]:
        labels = best_labels(model.on(self.backend).parts["embedding"], self.data.held_X, 5)
        return {f"p@{k}": precision_at_k(self.data.held_Y, labels, k) for k in (1, 3, 5)}

    def inference(self) -> dict[str, Any]:
        """Measure the rate of prediction: rows are copied to the device, five labels are copied
        back.
        """
        k, c, d = self.small(500), self.data.Y.shape[1], self.data.X.shape[1]
        rng = np.random.default_rng(0)
        decoder = Decoder(
            rng.standard_normal((k, c), dtype=np.float32),
            rng.standard_normal(c, dtype=np.float32),
            "identity",
        )
        W = rng.standard_normal((d + 1, k), dtype=np.float32)
        no_vectors = np.zeros((c, 0), np.float32)
        embedding = LabelEmbedding(W, decoder, no_vectors, np.zeros(0, np.float32))
        embedding = embedding.on(self.backend)
        X = self.data.X[: min(self.data.X.shape[0], 400_000)]
        best_labels(embedding, X[:1000], 5)
        labels, seconds, memory = self.timed(best_labels, embedding, X, 5)
        projected = embedding.prepare(X[:1000])
        all_scores = as_numpy(embedding.decoder.scores(projected.H))
        exact = top_k(all_scores, 5)[0]
        return {
            "examples": X.shape[0],
            "examples_per_second": X.shape[0] / seconds,
            "gigabytes": memory,
            "same_labels_as_float32": float((exact == labels[: len(exact)]).mean()),
            "share_of_flops": 2.0
            * X.shape[0]
            * k
            * c
            / seconds
            / self.roofline["flops_per_second"],
        }

    def precision(self) -> dict[str, Any]:
        """Compare decoders fitted with products in float32 and in bfloat16, on smaller data of the
        same kind.
        """
        scale = min(self.scale, 0.03)
        small = Bench(self.backend.device, scale, self.tol, self.epochs)
        results = {}
        for name, compute in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
            backend = replace(self.backend, compute=compute)
            settings = self._logistic(small.small(800), small.small(4000), leave_out=0.0)
            model, seconds, _ = self.timed(
                fit_model, small.examples, embedding_alone(settings), backend=backend
            )
            results[name] = {"seconds": seconds, **small._quality(model)}
        return results

    def aloi(self) -> dict[str, Any]:
        """Measure ALOI: the embedding after a warm-up, and a complete fit with 12,000 random
        features.
        """
        train, test = self._known("aloi")
        examples = Examples(as_rows(train.X), train.Y, np.arange(train.Y.shape[1]), multiclass=True)
        settings = embedding_settings(
            n_components=50,
            decoder="logistic",
            decoder_ridge=0.0,
            kernel="gaussian",
            tol=1e-3,
            n_random_features=self.small(12_000),
            leave_out=0.0,
        )
        with self.backend.session():
            engine = self.backend.engine(examples.X, train.Y, None)
            warm = min(self.timed(embed, engine, settings, 0)[1] for _ in range(10))
        results: dict[str, Any] = {"embedding_milliseconds": 1000 * warm}

        def train_it() -> Any:
            embedded = embed_labels(examples, settings, 0, self.backend)
            fitting = Fitting(backend=self.backend)
            return embedded, fit_decoder(embedded, examples, settings, fitting)

        _, results["first_seconds"], _ = self.timed(train_it)
        (embedded, decoder), results["warm_seconds"], memory = self.timed(train_it)
        H = embedded.project(as_rows(test.X), self.backend)
        found = torch.cat(
            [decoder.scores(H[i : i + 2048]).argmax(dim=1) for i in range(0, len(H), 2048)]
        )
        return results | {
            "error": 1 - precision_at_k(test.Y, found.cpu().numpy()[:, None], 1),
            "gigabytes": memory,
        }

    def pubmed(self) -> dict[str, Any]:
        """Measure PubMed-MeSH from texts to predictions, with two presets."""
        train, test = self._known("pubmed-mesh")
        results = {}
        for preset in ("balanced", "best"):
            classifier = RembrandtClassifier(
                preset=preset, device=self.backend.device, random_state=0
            )
            _, seconds, memory = self.timed(classifier.fit_dataset, train)
            measured = measure(classifier, test)
            found = {name: measured.model[name] for name in ("p@1", "p@3", "p@5")}
            rate = measured.examples_per_second
            results[preset] = {
                "seconds": seconds,
                "gigabytes": memory,
                "examples_per_second": rate,
                **found,
            }
        return results

    def _known(self, name: str) -> tuple[Any, Any]:
        folder = Path(os.environ.get("REMBRANDT_DATA", "../shared/data"))
        if not (folder / name).is_dir():
            raise FileNotFoundError(
                f"there is no {folder / name}; set REMBRANDT_DATA to the folder that holds {name}/"
            )
        train, test = (catalogue.load(name, part, folder=folder) for part in ("train", "test"))
        return train, test if train.feature_names is None else test.align_features(
            train.feature_names
        )


class Counted(TorchEngine):
    """An engine that counts the columns of its products."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.columns: dict[tuple[str, str], int] = {}

    def full_product(self, left: str, right: str, Q: torch.Tensor) -> torch.Tensor:
        self.columns[left, right] = self.columns.get((left, right), 0) + Q.shape[1]
        return super().full_product(left, right, Q)

    def work(self) -> dict[str, float]:
        """Return the operations, and the bytes if entries are read once for every 128 columns of a
        block.
        """
        size = {"X": self.d, "Y": self.c}
        nonzeros = {"X": len(self.X.values), "Y": len(self.Y.values)}
        flops = moved = gathered = 0.0
        for (left, right), columns in self.columns.items():
            both = nonzeros[left] + nonzeros[right]
            flops += 2.0 * both * columns
            gathered += 4.0 * both * columns
            moved += 4.0 * columns * (size[left] + 2 * self.n + size[right]) + 8.0 * both * -(
                -columns // 128
            )
        return {"flops": flops, "bytes": moved, "bytes_if_nothing_is_cached": gathered}


def main(given: list[str] | None = None) -> dict[str, Any]:
    """Run the parts, and print and store their results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="size of the data relative to LSHTC"
    )
    parser.add_argument(
        "--tol", type=float, default=0.0, help="relative residual at which a regression stops early"
    )
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--output", type=Path, default=Path("bench-results/gpu_lshtc.json"))
    options = parser.parse_args(given)
    chosen = options.only.split(",")
    if unknown := set(chosen) - set(PARTS):
        parser.error(
            f"there is no part {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}"
        )
    bench = Bench(options.device, options.scale, options.tol, options.epochs)
    cuda = bench.backend.first.type == "cuda"
    results: dict[str, Any] = {
        "machine": machine()
        | {
            "gpu": torch.cuda.get_device_name() if cuda else None,
            "torch": torch.__version__,
            "triton": has_triton(),  # without it every pass over the weights is several
        },
        "scale": options.scale,
        "tol": options.tol,
        "roofline": bench.roofline,
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    for name in chosen:
        print(f"== {name}", flush=True)
        try:
            results[name] = getattr(bench, name)()
        except FileNotFoundError as missing:
            print(f"skipped: {missing}")
            continue
        print(json.dumps(results[name], indent=2), flush=True)
        options.output.write_text(json.dumps(results, indent=2))
    return results


if __name__ == "__main__":
    main()
