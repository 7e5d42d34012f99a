"""From texts to vectors: by a network that a model has, by one that it refers to, or by an object
that a user gives.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import islice
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rembrandt.errors import DataError
from rembrandt.forks import Lock
from rembrandt.linalg.sparse import normalize_rows
from rembrandt.parts.encoder.libraries import load_library_encoder
from rembrandt.parts.encoder.network import Network, load_network, require_libraries
from rembrandt.progress import Report, silent

Vectors = NDArray[np.float32]

# Texts whose vectors are kept, so that a text that is asked for again is not encoded again.
KEPT_TEXTS = 1 << 14


class TextEncoder(ABC):
    """Turns texts into vectors; the last ones are kept."""

    name: str
    width: int

    def __init__(self) -> None:
        self._kept: dict[str, Vectors] = {}
        # One thread encodes at a time: a service reloads models while others predict.
        self._lock = Lock()

    @abstractmethod
    def compute(self, texts: list[str], report: Report = silent) -> Vectors:
        """Return the vectors of texts, n × width."""

    def vectors(self, texts: Sequence[str], report: Report = silent) -> Vectors:
        """Return the vectors of texts, n × width; those that are known are not computed again."""
        with self._lock:
            missing = [text for text in dict.fromkeys(texts) if text not in self._kept]
            if missing:
                computed = self.compute(missing, report)
                self._kept.update(zip(missing, computed, strict=True))
            vectors = np.empty((len(texts), self.width), dtype=np.float32)
            for row, text in enumerate(texts):
                vectors[row] = self._kept[text]
            n_excess = max(0, len(self._kept) - KEPT_TEXTS)
            for text in list(islice(self._kept, n_excess)):
                del self._kept[text]
            return vectors

    def stored_vectors(self, texts: Sequence[str], report: Report = silent) -> Vectors:
        """Return the vectors of very many texts, from the disk where they are there."""
        return self.vectors(texts, report)

    def keep(self, texts: Sequence[str], vectors: Vectors) -> None:
        """Keep the vectors of texts that will be asked for."""
        with self._lock:
            self._kept.update(zip(texts, vectors, strict=True))

    def on(self, device: str) -> "TextEncoder":
        """Return the same encoder on a device, where it can use one."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_kept"] = {}
        del state["_lock"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = Lock()

    def __deepcopy__(self, memo: Any) -> Self:
        return self  # a clone of an estimator shares the weights


class NetworkEncoder(TextEncoder):
    """A network. It is built when it is first used, so that a model can be looked into without the
    libraries that run it.
    """

    def __init__(
        self, network: Network, max_tokens: int, unit_length: bool, device: str = "cpu"
    ) -> None:
        super().__init__()
        self.network = network
        self.name = network.name
        self.width = network.width
        self.max_tokens = max_tokens
        self.unit_length = unit_length  # whether vectors are scaled to it
        self.device = device
        self._running: Any = None

    @property
    def key(self) -> str:
        """What the vectors depend on, besides the texts."""
        return key_of(self.network.digest, self.max_tokens)

    def stored_vectors(self, texts: Sequence[str], report: Report = silent) -> Vectors:
        from rembrandt.parts.encoder.cache import cached_vectors

        return cached_vectors(self, self.key, texts, report)

    def compute(self, texts: list[str], report: Report = silent) -> Vectors:
        if self._running is None:
            require_libraries(self.name)
            from rembrandt.parts.encoder.running import RunningNetwork

            self._running = RunningNetwork(self.network, self.device)
        vectors: Vectors = self._running.encode(texts, self.max_tokens, report)
        if self.unit_length:
            return np.asarray(normalize_rows(vectors))
        return vectors

    def on(self, device: str) -> "NetworkEncoder":
        if device == self.device:
            return self
        return NetworkEncoder(self.network, self.max_tokens, self.unit_length, device)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_running": None}


class ReferencedEncoder(TextEncoder):
    """A network that a model refers to by its name and a checksum. It is loaded when it is first
    used, from a folder or from the cache of a hub.
    """

    def __init__(
        self, name: str, digest: str, width: int, max_tokens: int, device: str = "cpu"
    ) -> None:
        super().__init__()
        self.name = name
        self.digest = digest
        self.width = width
        self.max_tokens = max_tokens
        self.device = device
        self._loaded: NetworkEncoder | None = None

    @property
    def key(self) -> str:
        """What the vectors depend on, besides the texts."""
        return key_of(self.digest, self.max_tokens)

    def stored_vectors(self, texts: Sequence[str], report: Report = silent) -> Vectors:
        from rembrandt.parts.encoder.cache import cached_vectors

        return cached_vectors(self, self.key, texts, report)

    def use(self, network: Network) -> None:
        """Use a network that is loaded already."""
        self._loaded = NetworkEncoder(network, self.max_tokens, True, self.device)

    def compute(self, texts: list[str], report: Report = silent) -> Vectors:
        if self._loaded is None:
            network = load_network(self.name, offline=True)
            if network.digest != self.digest:
                raise DataError(
                    f"the encoder {self.name!r} here is not the one that the model was fitted "
                    "with; restore that one, or fit again",
                    parameter="encoder",
                )
            self.use(network)
        assert self._loaded is not None
        return self._loaded.compute(texts, report)

    def on(self, device: str) -> "ReferencedEncoder":
        if device == self.device:
            return self
        moved = ReferencedEncoder(self.name, self.digest, self.width, self.max_tokens, device)
        if self._loaded is not None:
            moved.use(self._loaded.network)
        return moved

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_loaded": None}


class LibraryEncoder(TextEncoder):
    """An encoder of model2vec, loaded by its name when it is first used."""

    def __init__(self, name: str, width: int) -> None:
        super().__init__()
        self.name = name
        self.width = width
        self._loaded: Any = None

    @classmethod
    def load(cls, name: str) -> "LibraryEncoder":
        """Return an encoder that may be downloaded."""
        loaded = load_library_encoder(name)
        width = checked_vectors(loaded.encode(["text"]), 1).shape[1]
        encoder = cls(name, int(width))
        encoder._loaded = loaded
        return encoder

    def compute(self, texts: list[str], report: Report = silent) -> Vectors:
        if self._loaded is None:
            self._loaded = load_library_encoder(self.name, offline=True)
        return checked_vectors(self._loaded.encode(texts), len(texts), self)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_loaded": None}


class GivenEncoder(TextEncoder):
    """An object with ``encode(list of str)``. A saved model has its name alone."""

    def __init__(self, name: str, encoder: Any) -> None:
        super().__init__()
        self.name = name
        self._encoder = encoder
        self.width = int(checked_vectors(encoder.encode(["text"]), 1).shape[1])

    def compute(self, texts: list[str], report: Report = silent) -> Vectors:
        return checked_vectors(self._encoder.encode(texts), len(texts), self)

    def encode(self, texts: list[str]) -> Vectors:
        """Return the vectors of texts, as the object does."""
        return self.vectors(texts)


class MissingEncoder(TextEncoder):
    """An object that a loaded model needs and does not have."""

    def __init__(self, name: str, width: int) -> None:
        super().__init__()
        self.name = name
        self.width = width

    def compute(self, texts: list[str], report: Report = silent) -> Vectors:
        raise DataError(
            f"the model was fitted with the encoder {self.name!r}, which gives vectors of "
            f"{self.width:,} dimensions and is not part of it; load that encoder and give it to "
            "set_encoder",
            parameter="encoder",
        )


def checked_vectors(vectors: Any, n_texts: int, encoder: TextEncoder | None = None) -> Vectors:
    """Return what ``encode`` returned, scaled to unit length, after checking it."""
    block = np.asarray(vectors)
    is_matrix = block.ndim == 2 and block.dtype.kind in "fiu"
    if not is_matrix or block.shape[0] != n_texts or block.shape[1] == 0:
        raise DataError(
            f"encode returned an array of {block.dtype} of shape {block.shape} for {n_texts:,} "
            "texts; expected one vector for each",
            parameter="encoder",
        )
    if encoder is not None and block.shape[1] != encoder.width:
        raise DataError(
            f"vectors of the encoder {encoder.name!r} have {block.shape[1]:,} dimensions, and "
            f"those of the fit had {encoder.width:,}; give the same encoder",
            parameter="encoder",
        )
    if not np.isfinite(block).all():
        raise DataError("encode returned a value that is not finite", parameter="encoder")
    return np.asarray(normalize_rows(block.astype(np.float32)))


def key_of(digest: str, max_tokens: int) -> str:
    """Return a checksum of a network and of the number of tokens that it reads."""
    return hashlib.sha256(f"{digest} {max_tokens}".encode()).hexdigest()
