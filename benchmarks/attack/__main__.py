"""python -m benchmarks.attack ATTACK [--cases N] [--seed S] [--workers W] [--only NUMBER]

Attacks: readers, generated, models, stores, checkpoints, matrices, answers, kills, writers, dask,
service, review. Each prints one line of figures, and the first failures. The exit code is 1 if
there were any.
"""

import sys

from benchmarks.attack.harness import arguments, attack

ATTACKS = {
    "readers": ("benchmarks.attack.readers", "damaged_files", 10_000),
    "generated": ("benchmarks.attack.readers", "generated_files", 2_000),
    "models": ("benchmarks.attack.models", "damaged_models", 1_000),
    "stores": ("benchmarks.attack.folders", "damaged_stores", 500),
    "checkpoints": ("benchmarks.attack.folders", "damaged_checkpoints", 500),
    "matrices": ("benchmarks.attack.matrices", "damaged_matrices", 2_000),
    "answers": ("benchmarks.attack.answers", "metamorphic", 1_000),
}
OTHERS = ("kills", "writers", "dask", "service", "review")  # which have options of their own


def main(name: str, given: list[str]) -> int:
    """Run an attack and print its figures."""
    if name in ("kills", "writers"):
        from benchmarks.attack import processes

        return processes.main(name, given)
    if name == "dask":
        from benchmarks.attack import clusters

        return clusters.main(given)
    if name == "service":
        from benchmarks.attack import service

        return service.main(given)
    if name == "review":
        from benchmarks.attack import review

        return review.main(given)
    module, function, cases = ATTACKS[name]
    options = arguments(__doc__ or "", cases).parse_args(given)
    figures = attack(module, function, options.cases, options.seed, options.workers, options.only)
    for failure in figures.failures[: options.show]:
        print(failure)
    print(figures.line())
    return 0 if figures.is_clean else 1


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in (*ATTACKS, *OTHERS):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
