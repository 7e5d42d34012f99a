"""Every figure of the paper that the report shows, in one table.

P. Mineiro and N. Karampatziakis, Fast Label Embeddings via Randomized Linear Algebra, ECML 2015.
"""

ERROR, PRECISION = "test error (%)", "P@1 (%)"
SIZE, RATE, EMBEDDING = "model size (bytes)", "inference rate (examples/s)", "embedding (s)"
SECONDS = "seconds to fit"
SIBLINGS = "by predictions (%)"
FRATERNAL = "most fraternal"
KERNEL = "RE + random features + LR"  # k = 500
WIDE, SCRIPT = f"{KERNEL} at k = 800", f"{KERNEL} at k = 800 (authors' script)"

_ALOI = {
    ("RE+LR", ERROR): 9.7,
    ("PCA+LR", ERROR): 9.7,
    ("CS+LR", ERROR): 10.8,
    ("LR", ERROR): 10.8,
    ("OAA", ERROR): 11.5,
    ("LOMtree", ERROR): 16.5,
    ("RE+LR", SECONDS): 300,
    ("RE+LR", SIZE): 255_600,
    ("LR", SIZE): 516_000,
    ("RE+LR", RATE): 170_000,
    ("RE", EMBEDDING): 4,
}
_ODP = {
    ("RE+LR", ERROR): 83.15,
    ("CS+LR", ERROR): 85.14,
    ("PCA+LR", ERROR): 90.37,
    ("LOMtree", ERROR): 93.46,
    ("RE+LR", RATE): 1_700,
}
_LSHTC = {
    (KERNEL, PRECISION): 52.84,
    (WIDE, PRECISION): 53.39,
    (SCRIPT, PRECISION): 53.39,
    ("FastXML", PRECISION): 49.78,
    ("LPSR-NB", PRECISION): 27.91,
    (KERNEL, RATE): 60,
}
_SIBLINGS = {FRATERNAL: 0.32, "CS": 3.08, "PLST": 19.65, "RE": 23.61}  # on LSHTC
SIBLING_SETS = ("pubmed-mesh", "nvd-products")

_TIMES = {"aloi": 4, "mesh": 6_530, "nvd-versions": 8_006}  # of embeddings of ALOI, ODP and LSHTC

FIGURES: dict[tuple[str, str, str], float] = {
    **{("aloi", *key): value for key, value in _ALOI.items()},
    **{("odp", *key): value for key, value in _ODP.items()},
    **{("lshtc", *key): value for key, value in _LSHTC.items()},
    **{("timing", name, EMBEDDING): value for name, value in _TIMES.items()},
    **{
        ("siblings", f"{name}: {system}", SIBLINGS): value
        for name in SIBLING_SETS
        for system, value in _SIBLINGS.items()
    },
}


def figure(experiment: str, system: str, metric: str) -> float | None:
    """Return the paper's figure for a row of the report; None if the paper gives none.

    A system may be described after a colon: ``mesh: 597,836 examples``.
    """
    names = system, system.partition(":")[0]
    return next(
        (
            FIGURES[experiment, name, metric]
            for name in names
            if (experiment, name, metric) in FIGURES
        ),
        None,
    )
