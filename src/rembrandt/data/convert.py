"""Conversion of files to a store, shard after shard.

A conversion continues where it was stopped, and can add to a store.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

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
from rembrandt.linalg.validation import bounded_values
from rembrandt.progress import Report, silent
from rembrandt.storage.atomic import remove_partial_files
from rembrandt.storage.locks import LOCK, locked

SHARD_ROWS = 200_000  # examples in a shard: with forty words each about 70 MB
N_WRITERS = 2  # threads that write shards while others are read


def convert(
    paths: Sequence[str | Path],
    output: str | Path,
    *,
    rows: int = SHARD_ROWS,
    text_features: TextFeatures | None = None,
    append: bool = False,
    report: Report = silent,
    **reading: Any,
) -> Store:
    """Convert files of examples to a store, and open it.

    A conversion of the same files that was stopped continues.

    Parameters
    ----------
    paths : sequence of str or Path
        The files.
    output : str or Path
        The folder of the store.
    rows : int, default=200_000
        The largest number of examples in a shard.
    text_features : TextFeatures, default=None
        How texts become features. Unless it is fitted or hashed, it is fitted in a first pass over
        the texts.
    append : bool, default=False
        Add the files to an existing store: new labels and named features get new columns, and texts
        are transformed as those before.
    report : callable, default=silent
        Called with stage, done and total.
    **reading : dict
        Options of `read`.

    Returns
    -------
    Store
    """
    folder = Path(output)
    files = [Path(path) for path in paths]
    options = ReadOptions(**reading)
    if not files:
        raise DataError("no file was given; name at least one")
    inputs = tuple(_described(path, rows, options, text_features) for path in files)

    def parts(path: Path, stage: str = "Reading") -> Iterator[Dataset]:
        def report_stage(name: str, done: int, total: int | None) -> None:
            report(name.replace("Reading", stage, 1), done, total)

        return read_parts(path, options, report_stage, rows)

    if append and not is_store(folder):
        raise DataError(
            f"there is no store to append to, it has no {MANIFEST}; leave --append out", folder
        )
    with locked(folder):
        manifest = _start(folder, inputs, append)
        writer = _Writer(folder, manifest, report)
        writer.choose_text_features(text_features, files, parts)
        first_number = len(writer.manifest.inputs) - len(files)
        for number, path in enumerate(files, first_number):
            writer.write(number, path, parts(path))
        writer.finish()
    return Store(folder)


def write_store(parts: Iterable[Dataset], output: str | Path) -> Store:
    """Write datasets to a new store, one shard for each, and open it."""
    folder = Path(output)
    with locked(folder):
        manifest = _start(folder, ({"path": "a program"},), append=False)
        writer = _Writer(folder, manifest, silent)
        writer.write(0, folder, parts)
        writer.finish()
    return Store(folder)


class _Prepared(NamedTuple):
    """A part of an input that is ready to be written as a shard."""

    dataset: Dataset
    contents: ShardData  # its X is None if texts have yet to be transformed
    source: tuple[int, int]  # number of the input, and of the part of it


class _Writer:
    """Writes shards; the manifest lists a shard once it is on disk."""

    def __init__(self, folder: Path, manifest: Manifest, report: Report) -> None:
        self.folder = folder
        self.manifest = manifest
        self.report = report
        self.labels = manifest.names(folder, "labels")
        self.features: LabelIndex | None = None
        if manifest.has_feature_names:
            self.features = manifest.names(folder, "features")
        self.text = manifest.text_features(folder)

    def choose_text_features(
        self,
        text_features: TextFeatures | None,
        files: list[Path],
        parts: Callable[..., Iterator[Dataset]],
    ) -> None:
        """Choose how texts become features, before the first shard is written."""
        if self.text is not None:
            if text_features is not None and text_features.to_config() != self.text.to_config():
                raise DataError(
                    "its texts were transformed with other settings; leave these settings out",
                    self.folder,
                )
            return
        if self.manifest.shards:
            return
        has_texts = next(parts(files[0])).texts is not None
        if not has_texts:
            if text_features is not None:
                raise DataError(
                    "it has features; settings of text features are for texts", files[0]
                )
            return
        text = TextFeatures() if text_features is None else text_features
        if not hasattr(text, "n_features_out_"):
            text = TextFeatures(**text.get_params())  # the one given is not changed
            text.fit_parts(
                data.texts or [] for path in files for data in parts(path, "Learning the words of")
            )
        self.text = text
        entry = write_text_features(self.folder, text)
        self._note(text=entry, n_features=text.n_features_out_)

    def write(self, number: int, path: Path, parts: Iterable[Dataset]) -> None:
        """Write the shards of one input that are not there yet."""
        if self.manifest.inputs[number].get("done"):
            return
        n_done = sum(entry.source[0] == number for entry in self.manifest.shards)
        remaining = islice(enumerate(parts), n_done, None)
        prepared = (self._prepared(data, path, (number, i)) for i, data in remaining)
        for shard, entry in in_threads(prepared, self._written, N_WRITERS):
            tasks = (shard.dataset.task, self.manifest.task)
            self._note(
                task="multilabel" if "multilabel" in tasks else "multiclass",
                shards=(*self.manifest.shards, entry),
                n_features=max(self.manifest.n_features, entry.d),
                n_labels=entry.c,
                has_feature_names=self.features is not None,
                notes=self.manifest.notes + shard.dataset.notes,
            )
            self.report("Writing shards", len(self.manifest.shards), None)
        inputs = list(self.manifest.inputs)
        inputs[number] |= {"done": True}
        self._note(inputs=tuple(inputs))

    def finish(self) -> None:
        """Replace the manifest of the store; until now readers saw the store as it was."""
        self.manifest.write(self.folder)
        (self.folder / PROGRESS).unlink()

    def _prepared(self, data: Dataset, path: Path, source: tuple[int, int]) -> _Prepared:
        """A part over the labels and named features of the store, which grow.

        This is called in the order of the parts.
        """
        if source == (0, 0) and data.feature_names is not None:
            self.features = LabelIndex()
        self._check_kind(data, path)
        n_labels = len(self.labels)
        columns = self.labels.add(data.label_ids)
        Y = move_columns(data.Y, columns, len(self.labels))
        X: Any = data.X
        if X is not None:
            X = bounded_values(X, str(path))
        new_features: list[str] = []
        if self.features is not None and data.feature_names is not None:
            n_features = len(self.features)
            columns = self.features.add(data.feature_names)
            X = move_columns(X, columns, len(self.features))
            new_features = self.features.names[n_features:]
        contents = ShardData(
            X=X,
            Y=Y,
            weights=data.weights,
            label_ids=self.labels.names[n_labels:],
            feature_names=new_features,
        )
        return _Prepared(data, contents, source)

    def _check_kind(self, data: Dataset, path: Path) -> None:
        """Refuse examples whose features are not of the kind that the store has."""
        if data.X is None and self.text is None:
            raise DataError("it has texts and the store has features; make a store for it", path)
        if data.X is not None and self.text is not None:
            raise DataError("it has features and the store has texts; make a store for it", path)
        if data.X is not None and (self.features is None) != (data.feature_names is None):
            named = "the file" if self.features is None else "the store"
            raise DataError(f"only the features of {named} have names; make a store for it", path)

    def _written(self, shard: _Prepared) -> Entry:
        """Write a shard; called in threads."""
        contents = shard.contents
        if self.text is not None:
            X = self.text.transform(shard.dataset.texts or [])
            contents = replace(contents, X=X)
        input_number, part_number = shard.source
        name = f"shard-{input_number:04d}-{part_number:06d}.safetensors"
        return write_shard(self.folder, name, contents, shard.source)

    def _note(self, **changes: Any) -> None:
        """Change the manifest of the unfinished conversion."""
        self.manifest = replace(self.manifest, **changes)
        self.manifest.write(self.folder, PROGRESS)


def _described(
    path: Path, rows: int, options: ReadOptions, text: TextFeatures | None
) -> dict[str, Any]:
    """What identifies a conversion, so that one that was stopped can continue."""
    if not path.exists():
        raise DataError("there is no such file; check the path", path)
    stat = path.stat()
    text_config = None
    if text is not None:
        text_config = json.dumps(text.to_config(), sort_keys=True)
    return {
        "path": str(path.resolve()),
        "bytes": stat.st_size,
        "modified": stat.st_mtime_ns,
        "rows": rows,
        "reading": json.dumps(asdict(options), default=str, sort_keys=True),
        "text": text_config,
    }


def _start(folder: Path, inputs: tuple[dict[str, Any], ...], append: bool) -> Manifest:
    """The manifest to continue.

    That is a new one, that of a stopped conversion of these inputs, or that of a store to add to.
    """
    remove_partial_files(folder)
    store = Manifest.read(folder) if (folder / MANIFEST).is_file() else None
    unfinished = Manifest.read(folder, PROGRESS) if (folder / PROGRESS).is_file() else None
    if store is not None and not append and unfinished is None:
        raise OutputExistsError(
            f"{folder} is a store already; choose another folder, or add to it with --append"
        )
    if unfinished is not None and (store is None or len(unfinished.inputs) > len(store.inputs)):
        last_inputs = unfinished.inputs[-len(inputs) :]
        if _without_done(last_inputs) == _without_done(inputs):
            return unfinished
    if store is None and unfinished is not None:
        raise OutputExistsError(
            f"{folder} is an unfinished conversion of other files, or these have changed since; "
            "run the command that started it, choose another folder, or delete it"
        )
    if store is None:
        others = [entry.name for entry in folder.iterdir() if entry.name != LOCK]
        if others:
            raise OutputExistsError(
                f"{folder} holds {others[0]!r} and is not a store; choose another folder"
            )
        store = Manifest()
    manifest = replace(store, inputs=store.inputs + inputs)
    manifest.write(folder, PROGRESS)
    return manifest


def _without_done(inputs: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
    """What identifies inputs, without how far their conversion is."""
    return [facts | {"done": None} for facts in inputs]
