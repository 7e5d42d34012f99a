"""What work on shards costs, counted where it is done."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Tally:
    """What products cost: passes over the data, and bytes from one process to another."""

    passes: int = 0
    seconds: float = 0.0
    broadcasts: int = 0
    sent: int = 0  # from here to workers
    between: int = 0  # from worker to worker
    gathered: int = 0  # from workers to here

    @contextmanager
    def one_pass(self) -> Iterator[None]:
        """Count what is done meanwhile as a pass over the data."""
        start = time.perf_counter()
        yield
        self.passes += 1
        self.seconds += time.perf_counter() - start

    def sentence(self) -> str:
        """The counts, for people."""
        passes = "1 pass" if self.passes == 1 else f"{self.passes:,} passes"
        said = f"{passes} over the data in {self.seconds:.1f} s"
        if self.broadcasts == 0:
            return said + "."
        moved = ", ".join(
            f"{size / 1e6:,.1f} MB {where}"
            for size, where in (
                (self.sent, "to the workers"),
                (self.between, "between them"),
                (self.gathered, "back from them"),
            )
        )
        return f"{said}; {self.broadcasts:,} broadcasts, {moved}."
