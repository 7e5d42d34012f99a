"""Current and peak resident memory of this process."""

import resource
from pathlib import Path

STATUS = Path("/proc/self/status")


def peak_bytes() -> int:
    """Return the peak resident memory; without /proc from ``ru_maxrss``, which may be that of a
    larger parent.
    """
    return status_bytes("VmHWM:") or 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def now_bytes() -> int:
    """Return the resident memory; without /proc its peak."""
    return status_bytes("VmRSS:") or peak_bytes()


def status_bytes(name: str) -> int:
    """Return an entry of /proc/self/status, such as ``RssAnon:``; 0 without /proc."""
    if not STATUS.exists():
        return 0
    return sum(
        1024 * int(line.split()[1])
        for line in STATUS.read_text().splitlines()
        if line.startswith(name)
    )
