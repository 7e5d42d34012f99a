"""How much memory a fit needs, and a refusal before it is taken."""

import os
from dataclasses import dataclass
from pathlib import Path

from rembrandt.errors import MemoryEstimateError

LIBRARIES = 1 << 28  # what the process takes before there is any data


@dataclass(frozen=True)
class Shape:
    """The sizes that decide how much memory a fit takes."""

    n: int
    d: int
    c: int
    nonzeros: int  # of X and Y together
    k: int
    width: int  # k and the columns to spare
    mapped: int  # features that the decoder sees
    decoder: str
    itemsize: int = 4  # bytes of a number: the features' own precision
    features: int | None = None  # bytes of mapped features that a logistic fit keeps, at most; None for all rows
    copies: int = 5  # of a logistic decoder's weights that are alive together
    together: int = 0  # labels and features that an example has together, at most; 0 without a sparse part


def estimate(shape: Shape) -> dict[str, int]:
    """Bytes by part; the largest stage counts, for one follows the other."""
    data = 2 * (4 + shape.itemsize) * shape.nonzeros  # both matrices, by rows and by columns
    wide = 2 * 8 * shape.width * min(max(shape.d, shape.c), 1 << 16)  # blocks in float64 while they are factored
    between = min(shape.itemsize * shape.n * shape.width, 1 << 29)  # rows of a product on its way
    embedding = shape.itemsize * shape.width * (8 * shape.d + 4 * shape.c) + wide + between
    weights = shape.itemsize * shape.mapped * shape.c
    features = shape.itemsize * shape.n * shape.mapped if shape.features is None else shape.features
    decoding = (
        shape.itemsize * shape.n * shape.k
        + {
            "transpose": weights,
            "ridge": 3 * weights + 3 * 8 * shape.mapped**2,
            "logistic": shape.copies * weights + features + 3 * 8 * shape.mapped**2,
        }[shape.decoder]
    )
    sparse = 24 * shape.together  # their directions while labels are clustered, or their weights in two orders
    total = LIBRARIES + data + max(embedding, decoding, weights + sparse)
    return {"data": data, "embedding": embedding, "decoder": decoding, "sparse": sparse, "total": total}


def available() -> int:
    """Bytes that this process may still take: what the machine has free, within its control group's limit."""
    free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
        free = int(fields["MemAvailable"].split()[0]) * 1024
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.exists() and used.exists() and limit.read_text().strip().isdigit():
        free = min(free, int(limit.read_text()) - int(used.read_text()))
    return free


def check(shape: Shape, free: int | None = None, where: str = "") -> int:
    """The estimate in bytes; refuses a fit that would not fit, and says which option lowers it."""
    parts = estimate(shape)
    free = available() if free is None else free
    if parts["total"] > free:
        sparse = f", {_gib(parts['sparse'])} sparse part" if shape.together else ""
        remedies = [f"a smaller n_components (now {shape.k})"]
        if shape.decoder != "transpose":
            remedies.append("decoder='transpose'")
        if shape.mapped > shape.k:
            remedies.append(f"fewer n_random_features (now {shape.mapped - shape.k}) or kernel=None")
        if shape.together:
            remedies.append("sparse=False")
        raise MemoryEstimateError(
            f"this fit needs about {_gib(parts['total'])} ({_gib(parts['data'])} data, {_gib(parts['embedding'])} "
            f"embedding, {_gib(parts['decoder'])} decoder{sparse}) and {_gib(free)} is free{where}. "
            f"What lowers it: {', '.join(remedies)}."
        )
    return parts["total"]


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
