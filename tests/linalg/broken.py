"""Sparse matrices whose arrays were changed after they were made, so that SciPy did not check."""

from typing import Any

import numpy as np
from scipy import sparse


def sound(format: str = "csr") -> Any:
    """Return a matrix of 6 × 4 with entries in all rows but one."""
    dense = np.array(
        [[1, 0, 2, 0], [0, 3, 0, 0], [0, 0, 0, 0], [4, 5, 0, 6], [0, 0, 7, 0], [8, 0, 0, 9]],
        dtype=np.float32,
    )
    return sparse.coo_array(dense).asformat(format)


def changed(format: str, **arrays: Any) -> Any:
    """Return `sound` with other arrays, or with other values at positions of its arrays."""
    matrix = sound(format)
    for name, change in arrays.items():
        if isinstance(change, dict):
            array = getattr(matrix, name).copy()
            for position, value in change.items():
                array[position] = value
            change = array
        setattr(matrix, name, change)
    return matrix


def outside(axis: int) -> Any:
    """Return triples of which one is outside along an axis."""
    matrix = sound("coo")
    matrix.coords[axis][2] = 99
    return matrix


# Name, matrix, and what the message says.
BROKEN = {
    "column too large": (changed("csr", indices={3: 4}), "entry 3 is in column 4"),
    "column far too large": (changed("csr", indices={0: 2**31 - 1}), "column 2,147,483,647"),
    "column negative": (changed("csr", indices={8: -1}), "entry 8 is in column -1"),
    "row too large": (changed("csc", indices={0: 6}), "in row 6, and rows go from 0 to 5"),
    "start": (changed("csr", indptr={0: 1}), "starts with 1"),
    "end": (changed("csr", indptr={6: 10}), "ends with 10, and it has 9 values"),
    "descending": (changed("csr", indptr={2: 1}), "row 1 ends before it starts"),
    "far end inside": (changed("csr", indptr={2: 2**31 - 1}), "row 2 ends before it starts"),
    "short indptr": (changed("csr", indptr=np.array([0, 9])), "7 integers are expected"),
    "long indptr": (changed("csc", indptr=np.zeros(9, np.int32)), "5 integers are expected"),
    "no indptr": (changed("csr", indptr=np.empty(0, np.int32)), "7 integers are expected"),
    "float indptr": (changed("csr", indptr=np.zeros(7)), "float64"),
    "few indices": (changed("csr", indices=np.zeros(8, np.int32)), "8 indices for 9 values"),
    "few values": (changed("csr", data=np.ones(3)), "9 indices for 3 values"),
    "float indices": (changed("csr", indices=np.zeros(9)), "float64"),
    "list": (changed("csr", indices=[0] * 9), "list"),
    "triples, row": (outside(0), "entry 2 is in row 99"),
    "triples, column": (outside(1), "entry 2 is in column 99"),
    "triples, values": (changed("coo", data=np.ones(2)), "9 row indices"),
    "blocks": (changed("bsr", indices={0: 77}), "block column 77"),
    "lists, column": (changed("lil", rows={1: [9]}), "column 9"),
    "lists, lengths": (changed("lil", rows={1: [0, 1, 2]}), "row 1 does not have one value"),
    "diagonal": (changed("dia", offsets={0: 10**9}), "the diagonal 1000000000 is outside"),
    "diagonals": (changed("dia", offsets=np.zeros(1, np.int32)), "1 offsets"),
}
