"""A virtual environment for each program, in the user's cache, so that their requirements cannot
conflict.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import platformdirs

from benchmarks.peers.roster import Environment


def cache_folder() -> Path:
    """Return the folder of environments and prepared sets; ``REMBRANDT_BENCH_CACHE`` names another
    one.
    """
    return Path(
        os.environ.get("REMBRANDT_BENCH_CACHE")
        or Path(platformdirs.user_cache_dir("rembrandt")) / "peers"
    )


def python_of(environment: Environment | None) -> Path | None:
    """Return the interpreter of an installed environment, or None; without an environment the
    current interpreter.
    """
    if environment is None:
        return Path(sys.executable)
    folder = _folder(environment)
    return folder / "bin" / "python" if (folder / ".installed").exists() else None


def install(environment: Environment) -> None:
    """Create the environment with pip; an incomplete one is replaced."""
    folder = _folder(environment)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    pip = [
        str(folder / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    for arguments in (
        environment.requirements,
        ("--no-deps", *environment.alone) if environment.alone else (),
    ):
        if arguments:
            done = subprocess.run([*pip, *arguments], capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"pip could not install {' '.join(arguments)}:\n{done.stderr}")
    (folder / ".installed").touch()


def _folder(environment: Environment) -> Path:
    wanted = repr((environment.requirements, environment.alone, sys.version_info[:2]))
    return (
        cache_folder()
        / "environments"
        / f"{environment.name}-{hashlib.sha256(wanted.encode()).hexdigest()[:12]}"
    )
