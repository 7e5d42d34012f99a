"""Check a tag before a release, and print its section of the change log: ``python -m tests.release
v0.2.0``.
"""

import re
import sys
from pathlib import Path

from rembrandt import __version__

CHANGES = Path(__file__).parents[1] / "CHANGELOG.md"


def notes(tag: str, changes: str) -> str:
    """Return the section of a tag's version; exit with a sentence if something is not ready."""
    if tag != f"v{__version__}":
        sys.exit(f"the tag is {tag}, and the version of the package {__version__}")
    heading = re.search(rf"^## {re.escape(__version__)}\b.*$", changes, re.M)
    if heading is None:
        sys.exit(f"the change log has no section '## {__version__}'; name the one of this release")
    section = re.split(r"^## ", changes[heading.end() :], maxsplit=1, flags=re.M)[0].strip()
    if not section:
        sys.exit(f"the section of {__version__} in the change log is empty")
    return section


if __name__ == "__main__":
    print(notes(sys.argv[1], CHANGES.read_text(encoding="utf-8")))
