"""A block with a row for every example, in a temporary file."""

import tempfile
from collections.abc import Iterable
from typing import Any

import array_api_compat.numpy
import numpy as np
from numpy.typing import NDArray

from rembrandt.errors import RembrandtError
from rembrandt.linalg.blocks import Block


class HostRows:
    """Device and precision of a block in this process whose rows are read or computed on access."""

    device = "cpu"
    dtype = np.dtype(np.float32)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return array_api_compat.numpy


class RowsOnDisk(HostRows):
    """A block in a temporary file, which is deleted with it; ``H[rows]`` reads rows."""

    def __init__(self, n: int, width: int, blocks: Iterable[Block]) -> None:
        """Write consecutive blocks of rows."""
        self.shape = (n, width)
        # Open for as long as the block is.
        self._file = tempfile.TemporaryFile(prefix="rembrandt-rows-")  # noqa: SIM115
        try:
            for block in blocks:
                self._file.write(np.ascontiguousarray(block, dtype=self.dtype).data)
            self._file.flush()
        except OSError as error:
            raise RembrandtError(
                f"{4 * n * width:,} bytes of projected rows do not fit in {tempfile.gettempdir()} "
                f"({error.strerror}); free space there, or set TMPDIR to a folder on a larger disk"
            ) from error

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> NDArray[np.float32]:
        if 0 in self.shape:
            # An empty file cannot be mapped.
            return np.empty(self.shape, self.dtype)[rows]
        mapped = np.memmap(self._file, self.dtype, "r", shape=self.shape)
        return np.array(mapped[rows])
