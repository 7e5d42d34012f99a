"""A fit that survives being killed: what is done lies in a folder, and the same fit goes on from there.

There is one file for each stage that is done, and for the last two steps of a stage that goes in steps (epochs). A file
is safetensors, one array of it JSON: facts, which fit it belongs to, and which stages before it. Its name ends in its
check sum, and it takes that name when it is on the disk whole; so at any moment what has a name is complete, and what
does not match its name is damaged. Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt import __version__
from rembrandt.data.stored import StoredRows
from rembrandt.errors import ModelError, RembrandtWarning, SettingsError
from rembrandt.files import locked, writing
from rembrandt.linalg.sparse import is_sparse
from rembrandt.model.weights import map_weights, write_weights
from rembrandt.packing import Arrays

T = TypeVar("T")
State = tuple[Arrays, dict[str, Any]]  # arrays, and facts that are JSON
Fit = dict[str, Any]  # what tells one fit from another: see `fingerprint`

KEPT = 2  # steps of a stage
SHARE = 20  # a step is kept when the work since the last took so many times as long as keeping that did
_FACTS = "json"
_UNFINISHED = ".unfinished-checkpoint"  # at the end of a name
_NAME = re.compile(r"(?P<stage>[a-z]+(?:-[a-z0-9]+)*)\.(?P<number>[0-9]{1,9})\.(?P<sha256>[0-9a-f]{64})\.safetensors")


class Checkpoints:
    """Nothing is kept, so everything is done."""

    def begin(self, fit: Fit) -> None:
        """From here on it is about this fit."""

    def stage(self, name: str, compute: Callable[[], T], pack: Callable[[T], State], unpack: Callable[..., T]) -> T:
        """What ``compute`` gives, or gave when the stage was done before: ``unpack(arrays, facts)``."""
        return compute()

    def last(self, name: str) -> State | None:
        """The last step of a stage that was kept."""
        return None

    def step(self, name: str, number: int, arrays: Callable[[], Arrays], facts: dict[str, Any]) -> None:
        """Step ``number`` of a stage is done, and this is all that the next ones need."""

    def lines(self) -> list[str]:
        """What there is to go on from, for people."""
        return []

    def clear(self) -> None:
        """The fit has ended and its model is saved."""


NOTHING_KEPT = Checkpoints()


@contextmanager
def checkpoints_in(folder: str | Path | Checkpoints | None) -> Iterator[Checkpoints]:
    """The checkpoints in a folder, which no other fit may use meanwhile; those that are open already; or none."""
    if folder is None:
        yield NOTHING_KEPT
    elif isinstance(folder, Checkpoints):
        yield folder
    else:
        with locked(Path(folder)):
            yield CheckpointFolder(Path(folder))


@dataclass(frozen=True)
class _Kept:
    """A checkpoint by the name of its file."""

    path: Path
    stage: str
    number: int
    sha256: str

    def check(self) -> Fit:
        """The fit that it belongs to; refused when it is not as it was written."""
        try:
            with self.path.open("rb") as file:
                whole = hashlib.file_digest(file, "sha256").hexdigest() == self.sha256
        except OSError as error:
            raise ModelError(f"it cannot be read ({error.strerror})") from error
        if not whole:
            raise ModelError("its contents do not match their checksum")
        try:
            facts = _facts(map_weights(self.path))
            _ = dict(facts["after"]), dict(facts["facts"])
            return dict(facts["fit"])
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError("it is no checkpoint") from error

    def after(self) -> dict[str, str]:
        """The stages that were done before it, with their check sums."""
        return dict(_facts(map_weights(self.path))["after"])

    def read(self) -> State:
        """Its arrays, copied into memory: what is computed from them has the same bits as from those that were kept."""
        mapped = map_weights(self.path)
        return {name: np.array(a) for name, a in mapped.items() if name != _FACTS}, _facts(mapped)["facts"]


def _facts(arrays: Arrays) -> Any:
    return json.loads(arrays[_FACTS].tobytes())


class CheckpointFolder(Checkpoints):
    """What is done, in a folder that is this fit's alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fit: Fit = {}
        self._done: dict[str, str] = {}  # stages, with their check sums
        self._ended = -float("inf")  # when the last step was on the disk,
        self._cost = 0.0  # and how long that took

    def begin(self, fit: Fit) -> None:
        """Refuse the checkpoints of another fit, and do without those that are damaged."""
        self.fit, self._done = fit, {}
        damaged = []
        for kept in self._found():
            try:
                other = kept.check()
            except ModelError as error:
                damaged.append((kept, str(error)))
                continue
            if other != fit:
                raise SettingsError(
                    f"{self.folder} has checkpoints of another fit: {_difference(other, fit)}. Give the same data and "
                    "settings to go on with it; to begin anew choose another folder, or delete this one"
                )
        for kept, finding in damaged:
            warnings.warn(
                f"{kept.path} is damaged: {finding}; it is left out, and the fit goes on from what was done before it",
                RembrandtWarning,
                stacklevel=2,
            )
            kept.path.unlink()
        for unfinished in self.folder.glob(f".*{_UNFINISHED}"):
            unfinished.unlink()

    def stage(self, name: str, compute: Callable[[], T], pack: Callable[[T], State], unpack: Callable[..., T]) -> T:
        kept = self._usable(name)
        if kept:
            found, sha256 = unpack(*kept[-1].read()), kept[-1].sha256
        else:
            found = compute()
            sha256 = self._write(name, 1, pack(found))
        self._done[name] = sha256
        return found

    def last(self, name: str) -> State | None:
        kept = self._usable(name)
        return kept[-1].read() if kept else None

    def _usable(self, name: str) -> list[_Kept]:
        """What there is of a stage. It goes when a stage before it had to be done again and is not what it was.

        That takes a damaged file, and a device or another machine that does not round in the same way again.
        """
        found = self._found(name)
        usable = [kept for kept in found if kept.after() == self._done]
        for kept in found:
            if kept not in usable:
                kept.path.unlink()
        return usable

    def step(self, name: str, number: int, arrays: Callable[[], Arrays], facts: dict[str, Any]) -> None:
        begun = time.monotonic()
        if begun - self._ended < SHARE * self._cost:
            return
        self._write(name, number, (arrays(), facts))
        for old in self._found(name)[:-KEPT]:
            old.path.unlink()
        self._ended = time.monotonic()
        self._cost = self._ended - begun

    def clear(self) -> None:
        for kept in self._found():
            kept.path.unlink()

    def lines(self) -> list[str]:
        found = sorted(self._found(), key=lambda kept: (kept.path.stat().st_mtime_ns, kept.number))
        done = {kept.stage: kept.number for kept in found}
        stages = ", ".join(stage if number == 1 else f"{stage} {number}" for stage, number in done.items())
        return [f"{self.folder} has what an earlier run did: {stages}"] if done else []

    def _found(self, stage: str | None = None) -> list[_Kept]:
        """What is in the folder, by stage and number; other files are left alone."""
        names = ((path, _NAME.fullmatch(path.name)) for path in self.folder.iterdir())
        kept = [_Kept(path, m["stage"], int(m["number"]), m["sha256"]) for path, m in names if m is not None]
        return sorted((k for k in kept if stage in (None, k.stage)), key=lambda k: (k.stage, k.number))

    def _write(self, stage: str, number: int, state: State) -> str:
        """Keep it, and return its check sum."""
        arrays, facts = state
        body = json.dumps({"fit": self.fit, "after": self._done, "facts": facts}).encode()
        plain = {name: np.ascontiguousarray(a) for name, a in arrays.items()}
        unfinished = self.folder / f".{stage}{_UNFINISHED}"
        with writing(self.folder / f"{stage}.{number}"):
            try:
                unfinished.unlink(missing_ok=True)
                _, sha256 = write_weights(unfinished, plain | {_FACTS: np.frombuffer(body, np.uint8)})
                unfinished.rename(self.folder / f"{stage}.{number}.{sha256}.safetensors")
                descriptor = os.open(self.folder, os.O_RDONLY)
                try:
                    os.fsync(descriptor)  # the name too
                finally:
                    os.close(descriptor)
            finally:
                unfinished.unlink(missing_ok=True)
        return sha256


def fingerprint(
    X: Any, Y: sparse.csr_array, weights: NDArray[Any] | None, classes: NDArray[Any], settings: Mapping[str, Any]
) -> Fit:
    """What a fit depends on, as JSON: two that are equal give the same model."""
    return {
        "version": __version__,
        "examples": X.shape[0],
        "features": X.shape[1],
        "X": _digest(X),
        "labels": _digest(Y),
        "label names": _digest(classes),
        "weights": None if weights is None else _digest(weights),
        "settings": json.loads(json.dumps(settings)),
    }


def _digest(x: Any) -> str:
    digest = hashlib.sha256()
    if isinstance(x, StoredRows):
        parts: list[Any] = [entry.sha256.encode() for entry in x.store.manifest.shards]
        digest.update(f"{x.shape} {x.is_normalized}".encode())
    elif is_sparse(x):
        parts = [x.indptr, x.indices, x.data]
        digest.update(str(x.shape).encode())
    else:
        parts = [json.dumps(x.tolist()).encode() if x.dtype.kind == "O" else x]
        digest.update(f"{x.shape} {x.dtype}".encode())
    for part in parts:
        digest.update(part if isinstance(part, bytes) else np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _difference(there: Fit, here: Fit) -> str:
    """The first of what differs, in words."""
    if there.get("version") != here["version"]:
        return f"it was begun by Rembrandt {there.get('version')}, and this is {here['version']}"
    for count in ("examples", "features"):
        if there.get(count) != here[count]:
            return f"it has {there.get(count):,} {count}, and there are {here[count]:,} here"
    for part in ("X", "labels", "label names", "weights"):
        if there.get(part) != here[part]:
            return f"its {part} are not those given here" if part != "X" else "its features have other values"
    then, now = there.get("settings", {}), here["settings"]
    changed = [name for name in now | then if then.get(name) != now.get(name)]
    return ", ".join(f"there {name}={then.get(name)!r}, here {name}={now.get(name)!r}" for name in changed)
