"""Vectors of texts from an encoder, next to their terms.

An encoder is any object with ``encode(list of str)`` that returns one vector for each text, such as
a model of sentence-transformers or model2vec. A saved model has its name and the number of its
dimensions, not its weights, and never loads it by itself: the folder of a model is not trusted, and
loading an encoder may download and run code.
"""

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.errors import DataError, RembrandtError
from rembrandt.linalg.sparse import normalize_rows

LIBRARIES = ("model2vec", "sentence-transformers")


@dataclass(frozen=True)
class NamedEncoder:
    """An encoder and the name that a saved model remembers."""

    name: str
    encoder: Any

    def encode(self, texts: list[str]) -> Any:
        return self.encoder.encode(texts)

    def __deepcopy__(self, memo: Any) -> "NamedEncoder":
        return self  # a clone of an estimator shares the weights


@dataclass(frozen=True)
class MissingEncoder:
    """The encoder of a loaded model, which has to be given."""

    name: str
    width: int

    def encode(self, texts: list[str]) -> Any:
        raise DataError(
            f"the model was fitted with the encoder {self.name!r}, which gives vectors of "
            f"{self.width:,} dimensions "
            "and is not part of it; load that encoder and give it to text_.set_encoder",
            parameter="encoder",
        )


def load_encoder(name: str) -> NamedEncoder:
    """Load an encoder of an installed library.

    Parameters
    ----------
    name : str
        Name or folder of a model, such as "model2vec:minishlab/potion-base-8M" or
        "sentence-transformers:NAME"; without a library the first that is installed is used.

    Returns
    -------
    NamedEncoder
    """
    given, colon, rest = name.partition(":")
    wanted, rest = ((given,), rest) if colon and given in LIBRARIES else (LIBRARIES, name)
    installed = [each for each in wanted if find_spec(each.replace("-", "_")) is not None]
    if not installed:
        needed = " or ".join(wanted)
        raise RembrandtError(
            f"the encoder {name!r} needs {needed}: pip install 'rembrandt[encoder]'", "encoder"
        )
    library = import_module(installed[0].replace("-", "_"))
    load = (
        library.StaticModel.from_pretrained
        if installed[0] == "model2vec"
        else library.SentenceTransformer
    )
    try:
        return NamedEncoder(f"{installed[0]}:{rest}", load(rest))
    except (
        Exception
    ) as error:  # the libraries have exceptions of their own, for files and for downloads
        known = " or ".join(f"{each}:NAME" for each in LIBRARIES)
        message = (
            f"{installed[0]} cannot load the encoder {rest!r} ({error}); give its name or folder "
            f"as {known}"
        )
        raise RembrandtError(message, "encoder") from error


def name_of(encoder: Any) -> str:
    """Return the name of an encoder: its own, or that of its class."""
    own = getattr(encoder, "name", None)
    return (
        own if isinstance(own, str) else f"{type(encoder).__module__}.{type(encoder).__qualname__}"
    )


def encoded(encoder: Any, texts: list[str], width: int | None = None) -> NDArray[np.float32]:
    """Return the vectors of texts with unit length; refuse what are not finite vectors of one
    width.
    """
    vectors = np.asarray(encoder.encode(texts) if texts else np.empty((0, width or 1)))
    if (
        vectors.ndim != 2
        or vectors.dtype.kind not in "fiu"
        or vectors.shape[0] != len(texts)
        or not vectors.shape[1]
    ):
        found = f"an array of {vectors.dtype} of shape {vectors.shape}"
        raise DataError(
            f"encode returned {found} for {len(texts):,} texts; expected one vector for each",
            parameter="encoder",
        )
    if width is not None and vectors.shape[1] != width:
        message = (
            f"vectors of the encoder {name_of(encoder)!r} have {vectors.shape[1]:,} dimensions"
        )
        raise DataError(
            f"{message}, and those of the fit had {width:,}; give the same encoder",
            parameter="encoder",
        )
    if not np.isfinite(vectors).all():
        raise DataError("encode returned a value that is not finite", parameter="encoder")
    return np.asarray(normalize_rows(vectors.astype(np.float32)))
