"""The n-th smallest of some values, for kernels: without sorting."""

from typing import Any

from rembrandt.kernels import inner_kernel
from rembrandt.linalg import Array


@inner_kernel(error_model="numpy")
def nth_smallest(values: Array, n: int) -> Any:
    """Return the entry that has position ``n`` once the values are sorted; they are reordered.

    Hoare's quickselect. ``np.partition`` does the same, and takes five seconds to compile.
    """
    low = 0
    high = values.shape[0] - 1
    while low < high:
        pivot = values[(low + high) >> 1]
        left = low
        right = high
        while left <= right:
            while values[left] < pivot:
                left += 1
            while pivot < values[right]:
                right -= 1
            if left <= right:
                values[left], values[right] = values[right], values[left]
                left += 1
                right -= 1
        if n <= right:
            high = right
        elif n >= left:
            low = left
        else:
            break
    return values[n]
