"""Checkpoints: a fit that is killed and started again continues from the stages and steps that it
had finished.

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

KEPT_STEPS = 2
OVERHEAD = 0.05  # largest share of the time that writing steps may take
_FACTS = "json"
_UNNAMED = ".unfinished-checkpoint"  # suffix of a file whose checksum is not known yet
_NAME = re.compile(
    r"(?P<stage>[a-z]+(?:-[a-z0-9]+)*)\.(?P<number>[0-9]{1,9})\.(?P<sha256>[0-9a-f]{64})\.safetensors"
)


class Checkpoints:
    """Where a fit keeps its finished stages; this one keeps nothing, so every stage is computed."""

    def begin(self, fit: Fingerprint) -> None:
        """Start a fit; checkpoints of another fit are refused."""

    def stage(
        self,
        name: str,
        compute: Callable[[], T],
        pack: Callable[[T], State],
        unpack: Callable[..., T],
    ) -> T:
        """Return ``compute()``, or ``unpack(arrays, facts)`` of its saved result if the stage was
        finished before.
        """
        return compute()

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
    folder: str | Path | Checkpoints | None, overhead: float = OVERHEAD
) -> Iterator[Checkpoints]:
    """Open and lock the checkpoints in a folder. None gives `NO_CHECKPOINTS`; open checkpoints are
    passed through.
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
            facts = self._read()[1]
            _ = [
                part.items()
                for part in (facts["after"], facts["facts"], facts["fit"].get("settings", {}))
            ]
            return dict(facts["fit"])
        except OSError as error:
            raise StorageError(f"it cannot be read ({error.strerror})") from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StorageError("it is not a checkpoint") from error

    def after(self) -> dict[str, str]:
        """The stages that were finished before this one, with their checksums."""
        return dict(self._read()[1]["after"])

    def read(self) -> State:
        """The arrays and facts, in memory."""
        arrays, facts = self._read()
        return arrays, facts["facts"]

    def _read(self) -> tuple[Arrays, Any]:
        arrays = read_arrays(self.path, sha256=self.sha256, writable=True)
        text = checked(_FACTS, arrays, (None,), "u").tobytes()
        return {name: array for name, array in arrays.items() if name != _FACTS}, parse_json(
            self.path, text
        )


class CheckpointFolder(Checkpoints):
    """Checkpoints of one fit in a folder that no other fit uses."""

    def __init__(self, folder: Path, overhead: float = OVERHEAD) -> None:
        self.folder, self.overhead = folder, overhead
        self._fit: Fingerprint = {}
        self._done: dict[str, str] = {}  # finished stages and their checksums
        self._written = -float("inf")  # time when the last step was written
        self._cost = 0.0  # seconds that writing it took

    def begin(self, fit: Fingerprint) -> None:
        self._fit, self._done = fit, {}
        damaged = []
        for saved in self._found():
            try:
                other = saved.fit()
            except StorageError as error:
                damaged.append((saved.path, str(error)))
                continue
            if other != fit:
                raise SettingsError(
                    f"{self.folder} has checkpoints of another fit: {_difference(other, fit)}. "
                    "Give the same data and "
                    "settings to continue it; to start a new fit, choose another folder or delete "
                    "this one"
                )
        for path, finding in damaged:
            warnings.warn(
                f"{path} is damaged: {finding}; it is ignored, and the fit continues from the "
                "checkpoint before it",
                RembrandtWarning,
                stacklevel=2,
            )
            path.unlink()
        for unnamed in self.folder.glob(f"*{_UNNAMED}"):
            unnamed.unlink()

    def stage(
        self,
        name: str,
        compute: Callable[[], T],
        pack: Callable[[T], State],
        unpack: Callable[..., T],
    ) -> T:
        if saved := self._usable(name):
            try:
                result, self._done[name] = unpack(*saved[-1].read()), saved[-1].sha256
            except (
                RembrandtError,
                ValueError,
                TypeError,
                AttributeError,
                LookupError,
                ArithmeticError,
            ) as error:
                finding = f"{saved[-1].path} is not a checkpoint of this fit ({error})"
                raise StorageError(f"{finding}; delete the folder to start again") from error
        else:
            result = compute()
            self._done[name] = self._write(name, 1, pack(result))
        return result

    def last(self, name: str) -> State | None:
        saved = self._usable(name)
        return saved[-1].read() if saved else None

    def _usable(self, name: str) -> list[_Saved]:
        """The files of a stage that continue the stages before it; others are deleted.

        A stage that is computed again, because its file was damaged, can differ in its last bits on
        another machine.
        """
        for saved in self._found(name):
            if saved.after() != self._done:
                saved.path.unlink()
        return self._found(name)

    def step(
        self, name: str, number: int, arrays: Callable[[], Arrays], facts: dict[str, Any]
    ) -> None:
        started = time.monotonic()
        if started - self._written < self._cost / self.overhead:
            return
        self._write(name, number, (arrays(), facts))
        for old in self._found(name)[:-KEPT_STEPS]:
            old.path.unlink()
        self._written = time.monotonic()
        self._cost = self._written - started

    def clear(self) -> None:
        for saved in self._found():
            saved.path.unlink()

    def lines(self) -> list[str]:
        found = sorted(
            self._found(), key=lambda saved: (saved.path.stat().st_mtime_ns, saved.number)
        )
        last = {saved.stage: saved.number for saved in found}
        stages = ", ".join(
            stage if number == 1 else f"{stage} {number}" for stage, number in last.items()
        )
        return [f"{self.folder} has checkpoints of an earlier run: {stages}"] if last else []

    def _found(self, stage: str | None = None) -> list[_Saved]:
        """The checkpoints in the folder by stage and number; other files are ignored."""
        names = ((path, _NAME.fullmatch(path.name)) for path in self.folder.iterdir())
        saved = [
            _Saved(path, m["stage"], int(m["number"]), m["sha256"])
            for path, m in names
            if m is not None
        ]
        return sorted(
            (s for s in saved if stage in (None, s.stage)), key=lambda s: (s.stage, s.number)
        )

    def _write(self, stage: str, number: int, state: State) -> str:
        """Save a state and return its checksum."""
        arrays, facts = state
        body = json.dumps({"fit": self._fit, "after": self._done, "facts": facts}).encode()
        unnamed = self.folder / f"{stage}.{number}{_UNNAMED}"
        with write_errors(unnamed):
            _, sha256 = write_arrays(unnamed, arrays | {_FACTS: np.frombuffer(body, np.uint8)})
            unnamed.replace(self.folder / f"{stage}.{number}.{sha256}.safetensors")
            fsync_folder(self.folder)
        return sha256


def fingerprint(
    shape: tuple[int, int], digests: Mapping[str, str | None], settings: Mapping[str, Any]
) -> Fingerprint:
    """All that a fit depends on, as JSON: fits with equal fingerprints give the same model.

    ``digests`` are checksums of the data, by what they are of.
    """
    data = {"examples": shape[0], "features": shape[1], **digests}
    return {"version": __version__, **data, "settings": json.loads(json.dumps(settings))}


def _difference(there: Fingerprint, here: Fingerprint) -> str:
    """Describe the first difference between two fits."""
    if there.get("version") != here["version"]:
        return (
            f"it was started by Rembrandt {there.get('version')}, and this is version "
            f"{here['version']}"
        )
    for part in here:
        if part != "settings" and there.get(part) != here[part]:
            counts = f"it has {there.get(part)} {part}, and this fit has {here[part]}"
            return (
                counts
                if part in ("examples", "features")
                else f"its {part} differ from those given"
            )
    then, now = there.get("settings", {}), here["settings"]
    changed = [name for name in now | then if then.get(name) != now.get(name)]
    return ", ".join(
        f"it has {name}={then.get(name)!r}, this fit has {name}={now.get(name)!r}"
        for name in changed
    )
