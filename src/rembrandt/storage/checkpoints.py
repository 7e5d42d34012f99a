"""Checkpoints of a fit.

A fit that is killed and started again continues from the stages and steps that it had finished.

A folder has one file per finished stage, and files of the last two steps of a stage that proceeds
in steps (epochs). A file holds arrays in the format of `rembrandt.storage.arrays`. One of them is
JSON: facts, a fingerprint of the fit, and the checksums of the stages before. A file gets its name,
which ends in its checksum, once it is on disk. So a file with such a name is complete, and a file
that does not match its name is damaged.
"""

import json
import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from rembrandt import __version__
from rembrandt.errors import RembrandtError, RembrandtWarning, SettingsError, StorageError
from rembrandt.storage.arrays import Arrays, checked, parse_json, read_arrays, write_arrays
from rembrandt.storage.atomic import fsync_folder, write_errors
from rembrandt.storage.locks import locked

T = TypeVar("T")
State = tuple[Arrays, dict[str, Any]]  # arrays, and facts that are JSON
Fingerprint = dict[str, Any]

# Steps of a stage whose files are kept: the one before the last in case the last is damaged.
KEPT_STEPS = 2

# Largest share of the time that writing steps may take.
MAX_TIME_SHARE = 0.05

# Name of the array that holds JSON.
_FACTS = "json"

# Suffix of a file whose checksum is not known yet.
_UNNAMED = ".unfinished-checkpoint"

# Name of a file, with its stage, the number of its step, and its checksum.
_NAME = re.compile(
    r"(?P<stage>[a-z]+(?:-[a-z0-9]+)*)"
    r"\.(?P<number>[0-9]{1,9})"
    r"\.(?P<sha256>[0-9a-f]{64})"
    r"\.safetensors"
)

# What unpacking the arrays and facts of another fit can raise.
_UNUSABLE = (
    RembrandtError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
)


class Checkpoints:
    """Where a fit keeps its finished stages; this one keeps nothing, so every stage is computed.

    A fit loads each stage, and computes and saves it where there is none.
    """

    def begin(self, fit: Fingerprint) -> None:
        """Start a fit; checkpoints of another fit are refused."""

    def load(self, name: str, unpack: Callable[..., T]) -> T | None:
        """Return ``unpack(arrays, facts)`` of a finished stage; None if it was not saved."""
        return None

    def save(self, name: str, pack: Callable[[], State]) -> None:
        """Save the arrays and facts of a stage that is finished."""

    def last(self, name: str) -> State | None:
        """The last saved step of a stage."""
        return None

    def step(
        self, name: str, number: int, arrays: Callable[[], Arrays], facts: dict[str, Any]
    ) -> None:
        """Save step ``number`` of a stage: all that the following steps need."""

    def lines(self) -> list[str]:
        """Describe what is saved, for users."""
        return []

    def clear(self) -> None:
        """Delete the checkpoints; called when the model is saved."""


NO_CHECKPOINTS = Checkpoints()


@contextmanager
def checkpoints_in(
    folder: str | Path | Checkpoints | None, overhead: float = MAX_TIME_SHARE
) -> Iterator[Checkpoints]:
    """Open and lock the checkpoints in a folder.

    None gives `NO_CHECKPOINTS`; open checkpoints are passed through.
    """
    if folder is None:
        yield NO_CHECKPOINTS
    elif isinstance(folder, Checkpoints):
        yield folder
    else:
        with locked(Path(folder)):
            yield CheckpointFolder(Path(folder), overhead)


@dataclass(frozen=True)
class _Saved:
    """A checkpoint file, described by its name."""

    path: Path
    stage: str
    number: int
    sha256: str

    def fit(self) -> Fingerprint:
        """The fit that the file belongs to; a damaged file is refused."""
        try:
            _, contents = self._read()
            fit = contents["fit"]
            for mapping in (contents["after"], contents["facts"], fit.get("settings", {})):
                mapping.items()  # fails if it is not a mapping
            return dict(fit)
        except OSError as error:
            raise StorageError(f"it cannot be read ({error.strerror})") from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StorageError("it is not a checkpoint") from error

    def after(self) -> dict[str, str]:
        """The stages that were finished before this one, with their checksums."""
        _, contents = self._read()
        return dict(contents["after"])

    def read(self) -> State:
        """The arrays and facts, in memory."""
        arrays, contents = self._read()
        return arrays, contents["facts"]

    def _read(self) -> tuple[Arrays, Any]:
        """The arrays, and the JSON that describes them."""
        arrays = read_arrays(self.path, sha256=self.sha256, writable=True)
        text = checked(_FACTS, arrays, (None,), "u").tobytes()
        del arrays[_FACTS]
        return arrays, parse_json(self.path, text)


class CheckpointFolder(Checkpoints):
    """Checkpoints of one fit in a folder that no other fit uses."""

    def __init__(self, folder: Path, overhead: float = MAX_TIME_SHARE) -> None:
        self.folder = folder
        self.overhead = overhead
        self._fit: Fingerprint = {}
        self._done: dict[str, str] = {}  # finished stages and their checksums
        self._written = -float("inf")  # time when the last step was written
        self._cost = 0.0  # seconds that writing it took

    def begin(self, fit: Fingerprint) -> None:
        self._fit = fit
        self._done = {}
        damaged = []
        for saved in self._saved():
            try:
                other = saved.fit()
            except StorageError as error:
                damaged.append((saved.path, str(error)))
                continue
            if other != fit:
                raise SettingsError(
                    f"{self.folder} has checkpoints of another fit: {_difference(other, fit)}. "
                    "Give the same data and settings to continue it; to start a new fit, choose "
                    "another folder or delete this one"
                )
        for path, finding in damaged:
            warnings.warn(
                f"{path} is damaged: {finding}; it is ignored, and the fit continues from the "
                "checkpoint before it",
                RembrandtWarning,
                stacklevel=2,
            )
            _remove(path)
        for unnamed in self.folder.glob(f"*{_UNNAMED}"):
            _remove(unnamed)

    def load(self, name: str, unpack: Callable[..., T]) -> T | None:
        saved = self._last_usable(name)
        if saved is None:
            return None
        try:
            arrays, facts = saved.read()
            result = unpack(arrays, facts)
        except _UNUSABLE as error:
            raise StorageError(
                f"{saved.path} is not a checkpoint of this fit ({error}); delete the folder to "
                "start again"
            ) from error
        self._done[name] = saved.sha256
        return result

    def save(self, name: str, pack: Callable[[], State]) -> None:
        self._done[name] = self._write(name, 1, pack())

    def last(self, name: str) -> State | None:
        saved = self._last_usable(name)
        if saved is None:
            return None
        return saved.read()

    def _last_usable(self, name: str) -> _Saved | None:
        """The last file of a stage that continues the stages before it; others are deleted.

        A stage that is computed again, because its file was damaged, can differ in its last bits on
        another machine.
        """
        usable = []
        for saved in self._saved(name):
            if saved.after() == self._done:
                usable.append(saved)
            else:
                saved.path.unlink()
        if not usable:
            return None
        return usable[-1]

    def step(
        self, name: str, number: int, arrays: Callable[[], Arrays], facts: dict[str, Any]
    ) -> None:
        started = time.monotonic()
        if started - self._written < self._cost / self.overhead:
            return
        self._write(name, number, (arrays(), facts))
        saved_steps = self._saved(name)
        for old in saved_steps[:-KEPT_STEPS]:
            old.path.unlink()
        self._written = time.monotonic()
        self._cost = self._written - started

    def clear(self) -> None:
        for saved in self._saved():
            saved.path.unlink()

    def lines(self) -> list[str]:
        by_age = sorted(
            self._saved(), key=lambda saved: (saved.path.stat().st_mtime_ns, saved.number)
        )
        if not by_age:
            return []
        last_steps = {saved.stage: saved.number for saved in by_age}
        stages = []
        for stage, number in last_steps.items():
            if number == 1:
                stages.append(stage)
            else:
                stages.append(f"{stage} {number}")
        return [f"{self.folder} has checkpoints of an earlier run: {', '.join(stages)}"]

    def _saved(self, stage: str | None = None) -> list[_Saved]:
        """The checkpoints in the folder by stage and number; other files are ignored."""
        checkpoints = []
        for path in self.folder.iterdir():
            match = _NAME.fullmatch(path.name)
            if match is None:
                continue
            if stage is not None and match["stage"] != stage:
                continue
            checkpoint = _Saved(path, match["stage"], int(match["number"]), match["sha256"])
            checkpoints.append(checkpoint)
        checkpoints.sort(key=lambda saved: (saved.stage, saved.number))
        return checkpoints

    def _write(self, stage: str, number: int, state: State) -> str:
        """Save a state and return its checksum."""
        arrays, facts = state
        contents = {"fit": self._fit, "after": self._done, "facts": facts}
        text = json.dumps(contents).encode()
        described = arrays | {_FACTS: np.frombuffer(text, np.uint8)}
        unnamed = self.folder / f"{stage}.{number}{_UNNAMED}"
        with write_errors(unnamed):
            _, sha256 = write_arrays(unnamed, described)
            unnamed.replace(self.folder / f"{stage}.{number}.{sha256}.safetensors")
            fsync_folder(self.folder)
        return sha256


def _remove(path: Path) -> None:
    """Delete a file; a folder in its place may hold what somebody wants to keep."""
    if path.is_dir() and not path.is_symlink():
        raise StorageError(
            f"{path} is a folder in the place of a checkpoint; move it away, or choose another "
            "folder for the checkpoints"
        )
    path.unlink()


def fingerprint(
    shape: tuple[int, int], digests: Mapping[str, str | None], settings: Mapping[str, Any]
) -> Fingerprint:
    """All that a fit depends on, as JSON: fits with equal fingerprints give the same model.

    ``digests`` are checksums of the data, by what they are of.
    """
    n_examples, n_features = shape
    return {
        "version": __version__,
        "examples": n_examples,
        "features": n_features,
        **digests,
        "settings": json.loads(json.dumps(settings)),
    }


def _difference(there: Fingerprint, here: Fingerprint) -> str:
    """Describe the first difference between two fits."""
    old_version = there.get("version")
    version = here["version"]
    if old_version != version:
        return f"it was started by Rembrandt {old_version}, and this is version {version}"
    for name, value in here.items():
        old_value = there.get(name)
        if name == "settings" or old_value == value:
            continue
        if name in ("examples", "features"):
            return f"it has {old_value} {name}, and this fit has {value}"
        return f"its {name} differ from those given"
    old_settings = there.get("settings", {})
    settings = here["settings"]
    changes = []
    for name in settings | old_settings:
        old_value = old_settings.get(name)
        value = settings.get(name)
        if old_value != value:
            changes.append(f"it has {name}={old_value!r}, this fit has {name}={value!r}")
    return ", ".join(changes)


@dataclass(frozen=True)
class NamedCheckpoints(Checkpoints):
    """Checkpoints of one of several parts of the same kind, whose stages would have equal names."""

    checkpoints: Checkpoints
    prefix: str

    def load(self, name: str, unpack: Callable[..., T]) -> T | None:
        return self.checkpoints.load(f"{self.prefix}-{name}", unpack)

    def save(self, name: str, pack: Callable[[], State]) -> None:
        self.checkpoints.save(f"{self.prefix}-{name}", pack)

    def last(self, name: str) -> State | None:
        return self.checkpoints.last(f"{self.prefix}-{name}")

    def step(
        self, name: str, number: int, arrays: Callable[[], Arrays], facts: dict[str, Any]
    ) -> None:
        self.checkpoints.step(f"{self.prefix}-{name}", number, arrays, facts)
