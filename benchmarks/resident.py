"""The most memory that this process has held."""

import resource
from pathlib import Path

STATUS = Path("/proc/self/status")


def peak_bytes() -> int:
    """The high-water mark of the resident set; ``ru_maxrss``, where there is no other, may be a large parent's."""
    if STATUS.exists():
        marks = [line.split()[1] for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:")]
        if marks:
            return 1024 * int(marks[0])
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
