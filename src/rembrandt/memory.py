"""Estimate the memory of a fit, and refuse fits that would not fit in it."""

import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rembrandt.errors import MemoryEstimateError

try:
    import resource
except ModuleNotFoundError:  # Windows
    resource = None  # type: ignore[assignment]

LIBRARIES = 5 << 26  # bytes that the process takes before any data is read, with compiled code


@dataclass(frozen=True)
class Shape:
    """The sizes that determine how much memory a fit takes; ``k`` is 0 without an embedding."""

    n: int
    d: int
    c: int
    nonzeros: int  # of X and Y together
    k: int
    width: int  # k plus the oversamples
    mapped: int  # input features of the decoder
    decoder: str
    itemsize: int = 4  # bytes per number of X
    features: int | None = (
        None  # limit on the bytes of mapped rows in a logistic fit; None: all rows are mapped
    )
    copies: int = 5  # copies of a logistic decoder's weights
    together: int = 0  # pairs of a label and a feature that occur together; 0 without trees
    n_trees: int = 1
    lists: int = 0  # bytes of the labels that other scorers propose for each example


def estimate(shape: Shape) -> dict[str, int]:
    """Return the bytes of each part, and in total; the stages follow each other, so the largest of
    them counts.
    """
    item = shape.itemsize
    data = 2 * (4 + item) * shape.nonzeros  # both matrices, by rows and by columns
    wide = (
        8 * shape.width * min(max(shape.d, shape.c), 1 << 16)
    )  # a float64 block during factorization
    between = 2 * min(item * shape.n * shape.width, 1 << 29)  # intermediate rows of a product
    embedding = item * shape.width * (5 * shape.d + 2 * shape.c) + wide + between
    weights, gram = item * shape.mapped * shape.c, 3 * 8 * shape.mapped**2
    mapped_rows = item * shape.n * shape.mapped if shape.features is None else shape.features
    block = (
        24 * min(shape.n, 1 << 13) * shape.mapped
    )  # mapped rows at a time, with copies in double precision
    solving = {
        "transpose": weights,
        "ridge": 3 * weights + gram + block,
        "candidates": 4 * weights,
        "logistic": shape.copies * weights + mapped_rows + gram,
    }
    decoder = item * shape.n * shape.k + solving[shape.decoder]
    held = 8 * shape.n_trees * shape.together  # weights of the trees, which are fitted first
    trees = held + 8 * shape.together  # those of the last tree also as they were found
    total = LIBRARIES + data + shape.lists + max(trees, held + max(embedding, decoder))
    return {
        "data": data,
        "embedding": embedding,
        "decoder": decoder,
        "trees": trees,
        "total": total,
    }


def available(root: Path = Path("/")) -> int:
    """Return the bytes that this process may still allocate: free memory within the limits on it
    and its control group.

    Where the system reports only the physical memory that is returned, and where it reports nothing
    no limit.
    """
    meminfo = root / "proc/meminfo"
    if meminfo.exists():
        fields = dict(
            line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line
        )
        free = int(fields["MemAvailable"].split()[0]) * 1024
    elif hasattr(os, "sysconf"):  # macOS
        free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    else:  # Windows
        free = sys.maxsize
    return max(0, min([free, *_group_limits(root), *_process_limits(root)]))


def _group_limits(root: Path) -> Iterator[int]:
    """Bytes left in the control group of this process and in each group above it, in both versions
    of the interface.
    """
    files = {
        "": ("memory.max", "memory.current", "inactive_file"),
        "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    }
    lines = _text(root / "proc/self/cgroup").splitlines() or ["0::/"]
    for _, kinds, path in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        if kinds and "memory" not in kinds.split(","):
            continue
        maximum, used, cached = files["memory" if kinds else ""]
        top = root / "sys/fs/cgroup" / ("memory" if kinds else "")
        group = top / path.strip("/")
        for folder in [group, *(parent for parent in group.parents if parent.is_relative_to(top))]:
            limit, now = _text(folder / maximum), _text(folder / used)
            if limit.isdigit() and now.isdigit():
                fields = dict(
                    line.split(None, 1) for line in _text(folder / "memory.stat").splitlines()
                )
                yield (
                    int(limit) - int(now) + int(fields.get(cached, 0))
                )  # cached files are given up when needed


def _process_limits(root: Path) -> Iterator[int]:
    """Bytes left below the limit on the address space of this process."""
    if resource is None:
        return
    limit, pages = (
        resource.getrlimit(resource.RLIMIT_AS)[0],
        _text(root / "proc/self/statm").split(),
    )
    if limit != resource.RLIM_INFINITY:
        yield limit - (int(pages[0]) * resource.getpagesize() if pages else 0)


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:  # not on this system
        return ""


def give_back() -> None:
    """Return freed memory to the system. The C library of Linux keeps it for later, and models are
    large.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        gc.collect()
        trim(0)


def ran_out(error: MemoryError) -> str:
    """Describe a failed allocation, whose size NumPy names."""
    return (
        f"memory ran out ({error or 'an allocation failed'}; {_gib(available())} is free); close "
        "other programs, give "
        "less data at a time, or convert large data to a store with rembrandt data convert"
    )


def check(shape: Shape, free: int | None = None, where: str = "") -> int:
    """Return the estimate in bytes; raise an error that names what lowers it if it is more than
    ``free``.
    """
    parts = estimate(shape)
    free = available() if free is None else free
    if parts["total"] <= free:
        return parts["total"]
    remedies = {}
    if shape.k:
        remedies["n_components"] = f"a smaller n_components (now {shape.k})"
    if shape.decoder != "transpose":
        remedies["decoder"] = "decoder='transpose'"
    if shape.mapped > shape.k:
        remedies["n_random_features"] = f"fewer n_random_features (now {shape.mapped - shape.k})"
        remedies["kernel"] = "kernel=None"
    if shape.together:
        remedies["scorers"] = "scorers=('embedding',)"
    sizes = ", ".join(
        f"{_gib(size)} {part}" for part, size in parts.items() if size and part != "total"
    )
    raise MemoryEstimateError(
        f"this fit needs about {_gib(parts['total'])} ({sizes}) and {_gib(free)} is free{where}; "
        "to reduce it use "
        f"{', '.join(remedies.values())}",
        remedies,
    )


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
