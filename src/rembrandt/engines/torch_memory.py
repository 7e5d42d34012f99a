"""Work in blocks that shrink when a device runs out of memory."""

from collections.abc import Callable

import torch

from rembrandt.errors import MemoryEstimateError


def halving(work: Callable[[slice], None], whole: slice, step: int, what: str) -> int:
    """Call ``work`` for all of ``whole``, ``step`` at a time; after memory ran out, in steps of
    half the size.

    Return the last step size. ``work`` is called again for a slice that failed, so it must not
    leave partial results.
    """
    start = whole.start
    while start < whole.stop:
        stop = min(start + step, whole.stop)
        try:
            work(slice(start, stop))
        except torch.OutOfMemoryError as error:
            if stop - start <= 1:
                raise too_small(what) from error
            step = (stop - start) // 2
        else:
            start = stop
            continue
        # Here and not above: the exception would keep the blocks of `work` alive.
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return step


def too_small(what: str) -> MemoryEstimateError:
    """Return the error for a smallest piece of work that does not fit."""
    room = ""
    if torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        room = f" ({free / 2**30:.1f} of {total / 2**30:.1f} GiB are free)"
    return MemoryEstimateError(
        f"the device's memory{room} does not hold the smallest piece of {what}: use a smaller "
        "n_components or fewer n_random_features, another device, or device='cpu'."
    )
