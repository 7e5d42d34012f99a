"""Conversion of files to a store, shard after shard: it continues where it was stopped, and can add
to a store.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

from rembrandt.data.arrays import move_columns
from rembrandt.data.compressed import in_threads
from rembrandt.data.dataset import Dataset
from rembrandt.data.detect import ReadOptions
from rembrandt.data.labels import LabelIndex
from rembrandt.data.reader import read_parts
from rembrandt.data.shard import Entry, ShardData, write_shard
from rembrandt.data.store import MANIFEST, PROGRESS, Manifest, Store, is_store, write_text_features
from rembrandt.errors import DataError, OutputExistsError
from rembrandt.features.text import TextFeatures
from rembrandt.progress import Report, silent
from rembrandt.storage.atomic import remove_partial_files
from rembrandt.storage.locks import LOCK, locked

ROWS = 200_000  # examples in a shard: with forty words each about 70 MB
WRITERS = 2  # threads that write shards while others are read


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
    """Convert files of examples to a store with shards of at most ``rows`` examples, and open it.

    A conversion of the same files that was stopped continues. ``text_features`` turns texts into
    features; unless it is fitted or hashed, it is fitted in a first pass over the texts. ``append``
    adds the files to an existing store: new labels and named features get new columns, and texts
    are transformed as those before. ``reading`` are options of `read`.
    """
    folder, files, options = Path(output), [Path(path) for path in paths], ReadOptions(**reading)
    if not files:
        raise DataError("no file was given; name at least one")
    wanted = tuple(_described(path, rows, options, text_features) for path in files)

    def parts(path: Path, stage: str = "Reading") -> Iterator[Dataset]:
        return read_parts(
            path,
            options,
            lambda name, *rest: report(name.replace("Reading", stage, 1), *rest),
            rows,
        )

    if append and not is_store(folder):
        raise DataError(
            f"there is no store to append to, it has no {MANIFEST}; leave --append out", folder
        )
    with locked(folder):
        writer = _Writer(folder, _start(folder, wanted, append), report)
        writer.choose_text_features(text_features, files, parts)
        for number, path in enumerate(files, len(writer.manifest.inputs) - len(files)):
            writer.write(number, path, parts(path))
        writer.finish()
    return Store(folder)


def write_store(parts: Iterable[Dataset], output: str | Path) -> Store:
    """Write datasets to a new store, one shard for each, and open it."""
    folder = Path(output)
    with locked(folder):
        writer = _Writer(folder, _start(folder, ({"path": "a program"},), append=False), silent)
        writer.write(0, folder, parts)
        writer.finish()
    return Store(folder)


class _Writer:
    """Writes shards; the manifest lists a shard once it is on disk."""

    def __init__(self, folder: Path, manifest: Manifest, report: Report) -> None:
        self.folder, self.manifest, self.report = folder, manifest, report
        self.labels = manifest.names(folder, "labels")
        self.features = manifest.names(folder, "features") if manifest.has_feature_names else None
        self.text = manifest.text_features(folder)

    def choose_text_features(
        self, given: TextFeatures | None, files: list[Path], parts: Callable[..., Iterator[Dataset]]
    ) -> None:
        """Choose how texts become features, before the first shard is written."""
        if (
            given is not None
            and self.text is not None
            and given.to_config() != self.text.to_config()
        ):
            raise DataError(
                "its texts were transformed with other settings; leave these settings out",
                self.folder,
            )
        if self.manifest.shards or self.text is not None:
            return
        if next(parts(files[0])).texts is None:
            if given is not None:
                raise DataError(
                    "it has features; settings of text features are for texts", files[0]
                )
            return
        text = TextFeatures() if given is None else given
        if not hasattr(text, "n_features_out_"):
            text = TextFeatures(**text.get_params())
            text.fit_parts(
                part.texts or [] for path in files for part in parts(path, "Learning the words of")
            )
        self.text = text
        self._note(text=write_text_features(self.folder, text), n_features=text.n_features_out_)

    def write(self, number: int, path: Path, parts: Iterable[Dataset]) -> None:
        """Write the shards of one input that are not there yet."""
        if self.manifest.inputs[number].get("done"):
            return
        done = sum(entry.source[0] == number for entry in self.manifest.shards)
        todo = (
            self._prepared(part, path, (number, i))
            for i, part in islice(enumerate(parts), done, None)
        )
        for (part, *_), entry in in_threads(todo, lambda item: self._written(*item), WRITERS):
            several = "multilabel" in (part.task, self.manifest.task)
            self._note(
                task="multilabel" if several else "multiclass",
                shards=(*self.manifest.shards, entry),
                n_features=max(self.manifest.n_features, entry.d),
                n_labels=entry.c,
                has_feature_names=self.features is not None,
                notes=self.manifest.notes + part.notes,
            )
            self.report("Writing shards", len(self.manifest.shards), None)
        inputs = list(self.manifest.inputs)
        inputs[number] |= {"done": True}
        self._note(inputs=tuple(inputs))

    def finish(self) -> None:
        """Replace the manifest of the store; until now readers saw the store as it was."""
        self.manifest.write(self.folder)
        (self.folder / PROGRESS).unlink()

    def _prepared(
        self, part: Dataset, path: Path, source: tuple[int, int]
    ) -> tuple[Dataset, ShardData, tuple[int, int]]:
        """A part over the labels and named features of the store, which grow; called in the order
        of the parts.
        """
        if (part.X is None) != (self.text is not None):
            kinds = (
                "texts and the store has features"
                if part.X is None
                else "features and the store has texts"
            )
            raise DataError(f"it has {kinds}; make a store for it", path)
        if source == (0, 0) and part.feature_names is not None:
            self.features = LabelIndex()
        if part.X is not None and (self.features is None) != (part.feature_names is None):
            which = "the file" if self.features is None else "the store"
            raise DataError(f"only the features of {which} have names; make a store for it", path)
        X: Any = part.X
        n_labels, new_features = len(self.labels), []
        Y = move_columns(part.Y, self.labels.add(part.label_names), len(self.labels))
        if self.features is not None and part.feature_names is not None:
            n_features = len(self.features)
            X = move_columns(X, self.features.add(part.feature_names), len(self.features))
            new_features = self.features.names[n_features:]
        return (
            part,
            ShardData(X, Y, part.weights, self.labels.names[n_labels:], new_features),
            source,
        )

    def _written(self, part: Dataset, data: ShardData, source: tuple[int, int]) -> Entry:
        if self.text is not None:
            data = replace(data, X=self.text.transform(part.texts or []))
        return write_shard(
            self.folder, f"shard-{source[0]:04d}-{source[1]:06d}.safetensors", data, source
        )

    def _note(self, **changes: Any) -> None:
        self.manifest = replace(self.manifest, **changes)
        self.manifest.write(self.folder, PROGRESS)


def _described(
    path: Path, rows: int, options: ReadOptions, text: TextFeatures | None
) -> dict[str, Any]:
    """What identifies a conversion, so that one that was stopped can continue."""
    if not path.exists():
        raise DataError("there is no such file; check the path", path)
    stat = path.stat()
    return {
        "path": str(path.resolve()),
        "bytes": stat.st_size,
        "modified": stat.st_mtime_ns,
        "rows": rows,
        "reading": json.dumps(asdict(options), default=str, sort_keys=True),
        "text": None if text is None else json.dumps(text.to_config(), sort_keys=True),
    }


def _start(folder: Path, wanted: tuple[dict[str, Any], ...], append: bool) -> Manifest:
    """The manifest to continue: a new one, that of a stopped conversion, or that of a store to add
    to.
    """
    remove_partial_files(folder)
    store = Manifest.read(folder) if (folder / MANIFEST).is_file() else None
    unfinished = Manifest.read(folder, PROGRESS) if (folder / PROGRESS).is_file() else None
    if store is not None and not append and unfinished is None:
        raise OutputExistsError(
            f"{folder} is a store already; choose another folder, or add to it with --append"
        )
    if unfinished is not None and (store is None or len(unfinished.inputs) > len(store.inputs)):
        last = unfinished.inputs[-len(wanted) :]
        if [one | {"done": None} for one in last] == [one | {"done": None} for one in wanted]:
            return unfinished
    if store is None and unfinished is not None:
        raise OutputExistsError(
            f"{folder} is an unfinished conversion of other files, or these have changed since; "
            "run the command that "
            "started it, choose another folder, or delete it"
        )
    if store is None:
        others = [entry.name for entry in folder.iterdir() if entry.name != LOCK]
        if others:
            raise OutputExistsError(
                f"{folder} holds {others[0]!r} and is not a store; choose another folder"
            )
        store = Manifest()
    manifest = replace(store, inputs=store.inputs + wanted)
    manifest.write(folder, PROGRESS)
    return manifest
