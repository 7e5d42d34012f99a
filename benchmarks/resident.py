"""The memory that this process holds, and the most that it has held."""

import resource
from pathlib import Path

STATUS = Path("/proc/self/status")


def peak_bytes() -> int:
    """The high-water mark of the resident set; ``ru_maxrss``, where there is no other, may be a large parent's."""
    return _status("VmHWM:") or 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def now_bytes() -> int:
    """The resident set; its high-water mark where the system does not say."""
    return _status("VmRSS:") or peak_bytes()


def _status(name: str) -> int:
    if not STATUS.exists():
        return 0
    return sum(1024 * int(line.split()[1]) for line in STATUS.read_text().splitlines() if line.startswith(name))
