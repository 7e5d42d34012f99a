"""Counts of the work on shards."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Tally:
    """Passes over the data, and bytes moved between processes."""

    passes: int = 0
    seconds: float = 0.0
    broadcasts: int = 0
    sent: int = 0  # from the client to workers
    between: int = 0  # from worker to worker
    gathered: int = 0  # from workers to the client

    @contextmanager
    def one_pass(self) -> Iterator[None]:
        """Count the work of the block as one pass over the data."""
        start = time.perf_counter()
        yield
        self.passes += 1
        self.seconds += time.perf_counter() - start

    def sentence(self) -> str:
        """Describe the counts."""
        passes = "1 pass" if self.passes == 1 else f"{self.passes:,} passes"
        text = f"{passes} over the data in {self.seconds:.1f} s"
        if self.broadcasts == 0:
            return text + "."
        ways = ((self.sent, "to the workers"), (self.between, "between them"), (self.gathered, "back from them"))
        moved = ", ".join(f"{size / 1e6:,.1f} MB {where}" for size, where in ways)
        return f"{text}; {self.broadcasts:,} broadcasts, {moved}."
