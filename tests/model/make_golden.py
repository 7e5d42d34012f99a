"""Write tests/model/golden, for a new version of the format only: ``python -m
tests.model.make_golden FOLDER``.
"""

import sys
from typing import Any

import numpy as np
from scipy import sparse

from rembrandt.model.folder import save_folder
from rembrandt.storage.arrays import pack_strings


def contents():
    """Return one array of each type, a sparse matrix, a list of strings and metadata; nothing is
    random.
    """
    types = ["float64", "float32", "float16", "int64", "int32", "int8", "uint8"]
    arrays = {f"of_{name}": np.arange(12).reshape(3, 4).astype(name) for name in types}
    arrays["of_bool"] = np.arange(5) % 2 == 0
    diagonal: Any = sparse.csr_array(np.diag(np.arange(4, dtype=np.float32)))
    parts = {
        "indptr": diagonal.indptr,
        "indices": diagonal.indices,
        "data": diagonal.data,
        "shape": np.array([4, 4]),
    }
    arrays |= {f"sparse.{name}": array for name, array in parts.items()}
    arrays |= pack_strings("labels", ["plain", "", "naïve", "日本語"])
    return arrays, {"kind": "golden", "rank": 3, "λ": 0.5, "nested": {"list": [1, 2.5, None, True]}}


if __name__ == "__main__":
    save_folder(sys.argv[1], *contents())
