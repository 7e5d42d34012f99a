"""Files of examples to a store: shard after shard, resumed where it was stopped, and grown by what is new."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rembrandt.data.dataset import Dataset
from rembrandt.data.reader import read_parts
from rembrandt.data.shard import Entry, write_shard
from rembrandt.data.sparse import move_columns
from rembrandt.data.store import (
    MANIFEST,
    PROGRESS,
    Manifest,
    Names,
    Store,
    added,
    is_store,
    read_names,
    read_text_features,
    write_names,
    write_text_features,
)
from rembrandt.errors import DataError, OutputExistsError
from rembrandt.progress import Report, silent
from rembrandt.storage.atomic import remove_partial_files
from rembrandt.storage.locks import LOCK, locked

if TYPE_CHECKING:
    from rembrandt.features.text import TextFeatures

ROWS = 200_000  # examples in a shard: with forty words each about 70 MB
WRITERS = 2  # shards on their way to the disk while others are read


def convert(
    paths: Sequence[str | Path],
    output: str | Path,
    *,
    rows: int = ROWS,
    text_features: TextFeatures | None = None,
    append: bool = False,
    report: Report = silent,
    **reading: Any,
) -> Store:
    """Turn files of examples into a store of shards of about ``rows`` examples each, and open it.

    Parameters
    ----------
    paths : the files, in any format of `read`.
    output : the folder. A conversion of the same files that was stopped goes on; another is refused.
    text_features : how texts become features. Fitted already, they are used as they are and texts are read once;
        otherwise they are learned in a first pass over the texts, unless hashed.
    append : add the files to the store that is there. New labels and named features extend its tables; texts are
        turned into features as they were before.
    reading : as for `read`: format, text, labels, label_separator, ...
    """
    folder = Path(output)
    files = [Path(path) for path in paths]
    if not files:
        raise DataError("no file was given; name at least one")
    wanted = tuple(_described(path, rows, reading, text_features) for path in files)
    with _locked(folder, append):
        manifest = _begun(folder, wanted, append)
        writer = _Writer(folder, manifest, report)
        parts = _Parts(files, rows, reading, report)
        writer.vectorize_by(text_features, parts)
        first = len(manifest.inputs) - len(files)
        for number, path in enumerate(files):
            writer.write(first + number, path, parts.of(path))
        writer.finish()
    return Store(folder)


def write_store(parts: Iterable[Dataset], output: str | Path, report: Report = silent) -> Store:
    """A new store of datasets that a program makes, one shard for each, and open it. They are asked for one by one."""
    folder = Path(output)
    with _locked(folder, append=False):
        writer = _Writer(folder, _begun(folder, ({"path": "a program"},), append=False), report)
        writer.write(0, folder, iter(parts))
        writer.finish()
    return Store(folder)


class _Parts:
    """The inputs in parts; the same file is always cut in the same places."""

    def __init__(self, files: list[Path], rows: int, reading: dict[str, Any], report: Report) -> None:
        self.files, self.rows, self.reading, self.report = files, rows, reading, report

    def of(self, path: Path, stage: str = "Reading") -> Iterator[Dataset]:
        def told(name: str, done: int, total: int | None) -> None:
            self.report(name.replace("Reading", stage, 1), done, total)

        for part in read_parts(path, rows=self.rows, report=told, **self.reading):
            yield from _cut(part, self.rows)

    def texts(self) -> Iterator[list[str]]:
        """The texts of all inputs, for a first pass."""
        for path in self.files:
            for part in self.of(path, "Learning the words of"):
                if part.texts is None:
                    raise DataError("there are features in it; the settings of text features are for texts", path)
                yield part.texts


class _Writer:
    """Puts parts into shards; the manifest names a shard once it is on the disk."""

    def __init__(self, folder: Path, manifest: Manifest, report: Report) -> None:
        self.folder, self.manifest, self.report = folder, manifest, report
        self.labels = _Table(folder, "labels", manifest.labels)
        self.features = None if manifest.features is None else _Table(folder, "features", manifest.features)
        self.text = None if manifest.text is None else read_text_features(folder, manifest.text)
        self.n_features = manifest.n_features
        self.unsure = not manifest.shards and manifest.text is None  # whether features have names is not known yet

    def vectorize_by(self, text: TextFeatures | None, parts: _Parts) -> None:
        """Settle how texts become features, before the first of them does."""
        if self.text is not None or not self.unsure:
            new = self.text is not None and text is not None and text.to_config() != self.text.to_config()
            if new:
                raise DataError(
                    "its texts were turned into features in another way; leave those settings out", self.folder
                )
            return
        if next(parts.of(parts.files[0])).texts is None:
            if text is not None:
                raise DataError("there are features in it; the settings of text features are for texts", parts.files[0])
            return
        from rembrandt.features.text import TextFeatures

        text = TextFeatures() if text is None else text
        if not hasattr(text, "n_features_out_"):
            text = TextFeatures(**text.get_params())
            text.fit_parts(() if text.weighting == "hashed" else parts.texts())
        self.text, self.n_features = text, text.n_features_out_
        self._note(text=write_text_features(self.folder, text), n_features=self.n_features)

    def write(self, number: int, path: Path, parts: Iterator[Dataset]) -> None:
        """The shards of one input that are not there yet."""
        done = [entry.source[1] for entry in self.manifest.shards if entry.source[0] == number]
        if self.manifest.inputs[number].get("done"):
            return
        waiting: deque[tuple[Future[Entry], dict[str, Any]]] = deque()
        with ThreadPoolExecutor(WRITERS) as pool:
            for place, part in enumerate(parts):
                if place < len(done):
                    continue
                task, changes = self._shard(part, path, (number, place))
                waiting.append((pool.submit(task), changes))
                if len(waiting) >= WRITERS:
                    self._keep(*waiting.popleft())
            while waiting:
                self._keep(*waiting.popleft())
        inputs = list(self.manifest.inputs)
        inputs[number] = inputs[number] | {"done": True}
        self._note(inputs=tuple(inputs))

    def finish(self) -> None:
        """Only now is it a store, or the store that was there a larger one."""
        self.manifest.write(self.folder)
        (self.folder / PROGRESS).unlink()

    def _shard(self, part: Dataset, path: Path, source: tuple[int, int]) -> tuple[Callable[[], Entry], dict[str, Any]]:
        """The work of writing a part, and what the manifest says once it is written; names are settled in order."""
        if (part.X is None) != (self.text is not None):
            raise DataError(
                "it holds texts and the store features, or the other way round; make a store of its own", path
            )
        Y = move_columns(part.Y, self.labels.places(part.label_names), len(self.labels))
        X = part.X
        if X is not None:
            if self.unsure and part.feature_names is not None:
                self.features = _Table(self.folder, "features", ())
            self.unsure = False
            if (self.features is None) != (part.feature_names is None):
                raise DataError("its features have names and the store's have not, or the other way round", path)
            if self.features is not None and part.feature_names is not None:
                X = move_columns(X, self.features.places(part.feature_names), len(self.features))
            self.n_features = max(self.n_features, X.shape[1])
        name = f"shard-{source[0]:04d}-{source[1]:06d}.safetensors"
        changes = {
            "task": "multilabel" if "multilabel" in (part.task, self.manifest.task) else "multiclass",
            "n_features": self.n_features,
            "n_labels": len(self.labels),
            "labels": self.labels.piece(name),
            "features": None if self.features is None else self.features.piece(name),
            "notes": part.notes,
        }
        folder, text, texts, weights = self.folder, self.text, part.texts, part.weights

        def write() -> Entry:
            rows: Any = X if text is None else text.transform(texts or [])
            return write_shard(folder, name, rows, Y, weights, source)

        return write, changes

    def _keep(self, task: Future[Entry], changes: dict[str, Any]) -> None:
        entry = task.result()
        for name in ("labels", "features"):
            piece = changes[name]
            known = getattr(self.manifest, name)
            if piece is None and name == "features" and self.features is None:
                continue
            changes[name] = (known or ()) + (() if piece is None else (piece(),))
        notes = added(self.manifest.notes, changes.pop("notes"))
        self._note(shards=(*self.manifest.shards, entry), notes=notes, **changes)
        self.report("Writing shards", len(self.manifest.shards), None)

    def _note(self, **changes: Any) -> None:
        self.manifest = replace(self.manifest, **changes)
        self.manifest.write(self.folder, PROGRESS)


class _Table:
    """Names in the order in which they were first met, in pieces on the disk."""

    def __init__(self, folder: Path, kind: str, pieces: tuple[Names, ...]) -> None:
        self.folder, self.kind = folder, kind
        self.names = read_names(folder, pieces)
        self._ids = {name: i for i, name in enumerate(self.names)}
        self._written = len(self.names)
        self._last: tuple[Any, Any] = (None, None)

    def __len__(self) -> int:
        return len(self.names)

    def places(self, names: list[str]) -> Any:
        """For each name its number, new names getting the next ones."""
        if names is not self._last[0]:  # the parts of a file with a header share one list
            for name in names:
                if name not in self._ids:
                    self._ids[name] = len(self.names)
                    self.names.append(name)
            self._last = names, np.fromiter((self._ids[name] for name in names), np.int64, len(names))
        return self._last[1]

    def piece(self, shard: str) -> Callable[[], Names] | None:
        """What writes the names that are new since the last piece, or None where there are none."""
        fresh = self.names[self._written :]
        self._written = len(self.names)
        file = f"{Path(shard).stem}.{self.kind}.json"
        return (lambda: write_names(self.folder, file, fresh, len(fresh))) if fresh else None


def _cut(part: Dataset, rows: int) -> Iterator[Dataset]:
    """A part that came out longer than asked for, for readers stop at the ends of their chunks only."""
    n = part.n_examples
    if n <= rows:
        yield part
        return
    pieces = [part.rows(np.arange(start, min(start + rows, n))) for start in range(0, n, rows)]
    twice = {name: getattr(part.notes, name) for name in ("duplicate_features", "duplicate_labels")}
    pieces[0] = replace(pieces[0], notes=replace(pieces[0].notes, **twice))
    yield from pieces


def _described(path: Path, rows: int, reading: dict[str, Any], text: TextFeatures | None) -> dict[str, Any]:
    """What tells whether a conversion is the same as one before."""
    if not path.exists():
        raise DataError("there is no such file; check the path", path)
    how = json.dumps({key: value for key, value in reading.items() if value is not None}, default=str, sort_keys=True)
    config = None if text is None else json.dumps(text.to_config(), sort_keys=True)
    stat = path.stat()
    size = {"bytes": stat.st_size, "modified": stat.st_mtime_ns}
    return {"path": str(path.resolve()), **size, "rows": rows, "reading": how, "text": config}


def _begun(folder: Path, wanted: tuple[dict[str, Any], ...], append: bool) -> Manifest:
    """The manifest to go on with: an empty one, that of a conversion that was stopped, or that of a store to grow."""
    store = Manifest.read(folder) if (folder / MANIFEST).is_file() else None
    begun = Manifest.read(folder, PROGRESS) if (folder / PROGRESS).is_file() else None
    if store is not None and not append and begun is None:
        raise OutputExistsError(f"{folder} is a store already; choose another folder, or add to it with --append")
    if begun is not None and _same(begun.inputs, wanted) and (store is None or len(begun.inputs) > len(store.inputs)):
        return begun
    if store is None and begun is not None:
        raise OutputExistsError(
            f"{folder} is an unfinished conversion of other files, or these have changed since; give the command it "
            "was begun with, choose another folder, or delete it"
        )
    if store is None:
        strangers = [entry.name for entry in folder.iterdir() if entry.name != LOCK]
        if strangers:
            raise OutputExistsError(f"{folder} holds {strangers[0]!r} and is no store; choose another folder")
        store = Manifest()
    manifest = replace(store, inputs=store.inputs + wanted)
    manifest.write(folder, PROGRESS)
    return manifest


def _same(begun: tuple[dict[str, Any], ...], wanted: tuple[dict[str, Any], ...]) -> bool:
    tail = [{key: value for key, value in one.items() if key != "done"} for one in begun[-len(wanted) :]]
    return tail == list(wanted)


@contextmanager
def _locked(folder: Path, append: bool) -> Iterator[None]:
    if append and not is_store(folder):
        raise DataError(f"there is no store to append to, it has no {MANIFEST}; leave --append out", folder)
    with locked(folder):
        remove_partial_files(folder)
        yield
