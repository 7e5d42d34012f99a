"""The learning step of the embedding: ridge regression, ridge on features of a kernel, or a small network.

python -m benchmarks.regressors [NAME ...]      each run in a process of its own, so that CPU time is its own

The decoder is ridge regression without a kernel in all of them, so that only the learning step differs.
"""

from typing import Any

from benchmarks.real_sets import command, each, measured

LINEAR = {"decoder": "ridge", "kernel": None, "sparse": False}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    f"{name}, {regressor}": (name, settings | {"regressor": regressor})
    for name, settings in (
        ("delicious", {"n_components": 200}),
        ("bibtex", {"n_components": 159}),
        ("aloi", {"n_components": 200, "normalize": True, "decoder_ridge": 0.01}),
    )
    for regressor in ("linear", "kernel", "mlp")
}


def main(names: list[str] | None = None) -> dict[str, Any]:
    """Run every set that is there, and print a table."""
    results = {}
    print(f"{'run':<22}{'P@1':>7}{'P@3':>7}{'P@5':>7}{'CPU s':>8}{'wall s':>8}{'rows/s':>9}")
    for name, row in each("benchmarks.regressors", names or RUNS):
        results[name] = row
        p = "".join(f"{100 * row[m]:>7.2f}" for m in ("p@1", "p@3", "p@5"))
        print(f"{name:<22}{p}{row['cpu']:>8.1f}{row['wall']:>8.1f}{row['examples_per_second']:>9.0f}", flush=True)
    return results


def one(name: str, seed: int = 0) -> dict[str, Any]:
    """Fit and measure one set in this process."""
    from rembrandt import RembrandtClassifier

    set_name, settings = RUNS[name]
    settings = settings | {"regressor": regressor(settings["regressor"], seed)}
    return measured(RembrandtClassifier(**LINEAR | settings, random_state=seed), set_name)[0]


def regressor(name: str, seed: int) -> Any:
    """The regressor of a run; None is the linear one of the package."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import Ridge
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline

    if name == "kernel":
        return make_pipeline(Nystroem(n_components=1000, random_state=seed), Ridge())
    return MLPRegressor((512,), early_stopping=True, random_state=seed) if name == "mlp" else None


if __name__ == "__main__":
    command(__doc__, main, one)
