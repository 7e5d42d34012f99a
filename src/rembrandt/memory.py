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

# Bytes that the process takes before any data is read, with compiled code.
LIBRARY_BYTES = 5 << 26

# Bytes that the intermediate rows of a product take at most.
MAX_PRODUCT_BYTES = 1 << 29

# Rows of a block that are converted to float64 at a time when it is factored.
FLOAT64_ROWS = 1 << 16

# Rows that are mapped at a time for the statistics of a ridge decoder.
MAPPED_BLOCK_ROWS = 1 << 13

# Entries of the sums of the examples of all labels, at most, and of how many sums there are at the
# same time: those of the centroids, and those that the clusters of trees are made from.
MAX_SUM_ENTRIES = 1 << 24
SUMS_AT_ONCE = 2

# Files of a control group: its limit, its use, and the field of memory.stat with cached files.
_GROUP_FILES = ("memory.max", "memory.current", "inactive_file")
_OLD_GROUP_FILES = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


@dataclass(frozen=True)
class Shape:
    """The sizes that determine how much memory a fit takes; ``k`` is 0 without an embedding."""

    n: int
    d: int
    c: int
    nonzeros: int  # of X and Y together
    k: int = 0
    width: int = 0  # k plus the oversamples
    mapped: int = 0  # input features of the decoder
    decoder: str = "transpose"
    itemsize: int = 4  # bytes per number of X
    # Limit on the bytes of mapped rows in a logistic fit; None: all rows are mapped.
    features: int | None = None
    copies: int = 5  # copies of a logistic decoder's weights
    together: int = 0  # pairs of a label and a feature that occur together; 0 without trees
    n_trees: int = 1
    trees_at_once: int = 1  # that are fitted at the same time
    lists: int = 0  # bytes of the labels that other parts list for each example
    text_encoder: int = 0  # bytes of a text encoder, and of the vectors of all texts
    text_training: int = 0  # bytes of its training in this process
    text_training_on_device: int = 0  # and of the same on a GPU
    parts_at_once: bool = False  # whether trees and embedding are fitted at the same time


def estimate(shape: Shape) -> dict[str, int]:
    """Return the bytes of each part, and in total.

    Stages that follow each other count with the largest of them.
    """
    data = 2 * (4 + shape.itemsize) * shape.nonzeros  # both matrices, by rows and by columns
    embedding = _embedding_bytes(shape)
    decoder = _decoder_bytes(shape)
    held_trees = 8 * shape.n_trees * shape.together  # their weights; trees are fitted first
    # Those of the last trees also as they are fitted.
    trees = held_trees + 8 * shape.trees_at_once * shape.together
    encoder = shape.text_encoder + shape.text_training
    # Trees are fitted before the embedding or beside it.
    beside = held_trees
    if shape.parts_at_once:
        sums = 8 * SUMS_AT_ONCE * min(MAX_SUM_ENTRIES, shape.c * shape.d)
        beside = trees + sums
    largest_stage = max(trees, beside + embedding, beside + decoder, held_trees + encoder)
    total = LIBRARY_BYTES + data + shape.lists + largest_stage
    return {
        "data": data,
        "embedding": embedding,
        "decoder": decoder,
        "trees": trees,
        "text encoder": encoder,
        "total": total,
    }


def _embedding_bytes(shape: Shape) -> int:
    """Bytes of the blocks of the eigensolver and of the ridge regression in it."""
    blocks = shape.itemsize * shape.width * (5 * shape.d + 2 * shape.c)
    float64_rows = min(max(shape.d, shape.c), FLOAT64_ROWS)
    float64_block = 8 * shape.width * float64_rows  # during factorization
    product_rows = shape.itemsize * shape.n * shape.width
    intermediate_rows = 2 * min(product_rows, MAX_PRODUCT_BYTES)
    return blocks + float64_block + intermediate_rows


def _decoder_bytes(shape: Shape) -> int:
    """Bytes of the projected rows and of the fit of a decoder."""
    projected_rows = shape.itemsize * shape.n * shape.k
    weights = shape.itemsize * shape.mapped * shape.c
    gram = 3 * 8 * shape.mapped**2
    block_rows = min(shape.n, MAPPED_BLOCK_ROWS)
    block = 24 * block_rows * shape.mapped  # with copies in double precision
    mapped_rows = shape.features
    if mapped_rows is None:
        mapped_rows = shape.itemsize * shape.n * shape.mapped
    solving = {
        "transpose": weights,
        "ridge": 3 * weights + gram + block,
        "candidates": 4 * weights,
        "logistic": shape.copies * weights + mapped_rows + gram,
    }
    return projected_rows + solving[shape.decoder]


def available(root: Path = Path("/")) -> int:
    """Return the bytes that this process may still allocate.

    This is the free memory within the limits on the process and its control group. Where the system
    reports only the physical memory, that is returned, and where it reports nothing, no limit.
    """
    limits = [_free_memory(root), *_group_limits(root), *_process_limits(root)]
    return max(0, min(limits))


def _free_memory(root: Path) -> int:
    """Bytes that are free in the whole system."""
    meminfo = root / "proc/meminfo"
    if meminfo.exists():
        lines = meminfo.read_text().splitlines()
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        kibibytes = fields["MemAvailable"].split()[0]
        return int(kibibytes) * 1024
    if hasattr(os, "sysconf"):  # macOS
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return sys.maxsize  # Windows


def _group_limits(root: Path) -> Iterator[int]:
    """Bytes left in the control group of this process and in each group above it.

    Both versions of the interface are read. In the old one a line names the kinds of limits that
    its group has.
    """
    lines = _text(root / "proc/self/cgroup").splitlines() or ["0::/"]
    for line in lines:
        if line.count(":") < 2:
            continue
        _, kinds, path = line.split(":", 2)
        if not kinds:
            top = root / "sys/fs/cgroup"
            files = _GROUP_FILES
        elif "memory" in kinds.split(","):
            top = root / "sys/fs/cgroup/memory"
            files = _OLD_GROUP_FILES
        else:
            continue
        group = top / path.strip("/")
        for folder in (group, *group.parents):
            if folder == group or folder.is_relative_to(top):
                yield from _group_limit(folder, *files)


def _group_limit(folder: Path, limit_file: str, usage_file: str, cached: str) -> Iterator[int]:
    """Bytes left in a control group, if it has a limit."""
    limit = _text(folder / limit_file)
    usage = _text(folder / usage_file)
    if not (limit.isdigit() and usage.isdigit()):
        return
    statistics = _text(folder / "memory.stat").splitlines()
    fields = dict(line.split(None, 1) for line in statistics)
    cached_bytes = int(fields.get(cached, 0))  # cached files are given up when needed
    yield int(limit) - int(usage) + cached_bytes


def _process_limits(root: Path) -> Iterator[int]:
    """Bytes left below the limit on the address space of this process."""
    if resource is None:
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return
    pages = _text(root / "proc/self/statm").split()
    used = 0
    if pages:
        used = int(pages[0]) * resource.getpagesize()
    yield limit - used


def _text(path: Path) -> str:
    """Return the text of a file, or nothing if it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:  # not on this system
        return ""


def give_back() -> None:
    """Return the memory of objects that nobody uses to the system, after something large."""
    gc.collect()
    trim()


def trim() -> None:
    """Return freed memory to the system.

    The C library of Linux keeps it for later, and models and requests are large. Other threads run
    in the meantime.
    """
    if sys.platform != "linux":
        return
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)


def ran_out(error: MemoryError) -> str:
    """Describe a failed allocation, whose size NumPy names."""
    reason = error or "an allocation failed"
    return (
        f"memory ran out ({reason}; {_gib(available())} is free); close other programs, give less "
        "data at a time, or convert large data to a store with rembrandt data convert"
    )


def check(shape: Shape, free: int | None = None, where: str = "") -> int:
    """Return the estimate in bytes.

    If it is more than ``free``, an error is raised that names what lowers it.
    """
    sizes = estimate(shape)
    total = sizes.pop("total")
    if free is None:
        free = available()
    if total <= free:
        return total
    summands = ", ".join(f"{_gib(size)} {name}" for name, size in sizes.items() if size)
    remedies = _remedies(shape)
    raise MemoryEstimateError(
        f"this fit needs about {_gib(total)} ({summands}) and {_gib(free)} is free{where}; "
        f"to reduce it use {', '.join(remedies.values())}",
        remedies,
    )


def _remedies(shape: Shape) -> dict[str, str]:
    """What lowers the estimate, by the parameter that is to be changed."""
    remedies = {}
    if shape.k:
        remedies["n_components"] = f"a smaller n_components (now {shape.k})"
    if shape.decoder != "transpose":
        remedies["decoder"] = "decoder='transpose'"
    if shape.mapped > shape.k:
        remedies["n_random_features"] = f"fewer n_random_features (now {shape.mapped - shape.k})"
        remedies["kernel"] = "kernel=None"
    if shape.text_training:
        remedies["encoder_batch_size"] = "a smaller batch_size or fewer max_tokens of the encoder"
    if shape.together:
        remedies["parts"] = "parts=('embedding',)"
    return remedies


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
