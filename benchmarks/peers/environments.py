"""An environment of its own for each peer, in the user's cache: what one asks for is never what another gets."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import platformdirs

from benchmarks.peers.roster import Environment


def cache_folder() -> Path:
    """Where environments and prepared sets are kept; ``REMBRANDT_BENCH_CACHE`` names another place."""
    return Path(os.environ.get("REMBRANDT_BENCH_CACHE") or Path(platformdirs.user_cache_dir("rembrandt")) / "peers")


def python_of(environment: Environment | None) -> Path | None:
    """The interpreter that has it installed, or None."""
    if environment is None:
        return Path(sys.executable)
    place = _place(environment)
    return place / "bin" / "python" if (place / ".installed").exists() else None


def install(environment: Environment) -> None:
    """Make the environment with pip; what was left of an attempt that did not end is replaced."""
    place = _place(environment)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
    pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for arguments in (environment.requirements, ("--no-deps", *environment.alone) if environment.alone else ()):
        if arguments:
            done = subprocess.run([*pip, *arguments], capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"pip could not install {' '.join(arguments)}:\n{done.stderr}")
    (place / ".installed").touch()


def _place(environment: Environment) -> Path:
    wanted = repr((environment.requirements, environment.alone, sys.version_info[:2]))
    return cache_folder() / "environments" / f"{environment.name}-{hashlib.sha256(wanted.encode()).hexdigest()[:12]}"
