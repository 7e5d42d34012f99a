"""The learning step of the embedding: ridge regression, ridge on features of a kernel, or a small
network.

python -m benchmarks.regressors [NAME ...]      each run has its own process, so that its CPU time
is its own

All runs have the same ridge decoder without a kernel, so that they differ only in the learning
step.
"""

from typing import Any

from benchmarks.real_sets import command, each, measured, percentages
from rembrandt.recipe import EmbeddingSettings

COMMON: dict[str, Any] = {
    "scorers": ("embedding",),
    "decoder": "ridge",
    "decoder_ridge": 0.1,
    "kernel": None,
    "normalize": True,
    "embedding": EmbeddingSettings(leave_out=0.5, label_power=0.0, row_power=0.0, tol=0.02),
}
SETS: dict[str, dict[str, Any]] = {
    "delicious": {"n_components": 200},
    "bibtex": {"n_components": 159},
    "aloi": {"n_components": 200, "decoder_ridge": 0.01},
}
REGRESSORS = ("linear", "kernel", "mlp")
RUNS = tuple(f"{name}, {regressor}" for name in SETS for regressor in REGRESSORS)


def main(names: list[str] | None = None) -> dict[str, Any]:
    """Run every set whose data is present, and print a table."""
    results = {}
    print(f"{'run':<22}{'P@1':>7}{'P@3':>7}{'P@5':>7}{'CPU s':>8}{'wall s':>8}{'rows/s':>9}")
    for name, row in each("benchmarks.regressors", names or RUNS):
        results[name] = row
        print(
            f"{name:<22}{percentages(row, 'p@1', 'p@3', 'p@5')}{row['cpu']:>8.1f}{row['wall']:>8.1f}"
            f"{row['examples_per_second']:>9.0f}",
            flush=True,
        )
    return results


def one(name: str, seed: int = 0) -> dict[str, Any]:
    """Fit and measure one set in this process."""
    from rembrandt import RembrandtClassifier

    set_name, kind = name.split(", ")
    settings = COMMON | SETS[set_name] | {"regressor": regressor(kind, seed)}
    return measured(RembrandtClassifier(**settings, random_state=seed), set_name)[0]


def regressor(kind: str, seed: int) -> Any:
    """Return the scikit-learn regressor of a run; None is the built-in ridge regression."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import Ridge
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline

    if kind == "kernel":
        return make_pipeline(
            Nystroem(gamma=1.0, n_components=1000, random_state=seed), Ridge()
        )  # for rows of unit length
    return (
        MLPRegressor(hidden_layer_sizes=(512,), early_stopping=True, random_state=seed)
        if kind == "mlp"
        else None
    )


if __name__ == "__main__":
    command(__doc__, main, one)
