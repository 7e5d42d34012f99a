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

LIBRARIES = ("model2vec", "sentence-transformers")  # in the order in which they are tried


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
            f"{self.width:,} dimensions and is not part of it; load that encoder and give it to "
            "text_.set_encoder",
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
    library, model = _installed_library(name)
    module = import_module(_module_name(library))
    if library == "model2vec":
        load = module.StaticModel.from_pretrained
    else:
        load = module.SentenceTransformer
    try:
        encoder = load(model)
    except Exception as error:  # the libraries raise their own, for files and for downloads
        expected = " or ".join(f"{prefix}:NAME" for prefix in LIBRARIES)
        message = (
            f"{library} cannot load the encoder {model!r} ({error}); give its name or folder "
            f"as {expected}"
        )
        raise RembrandtError(message, "encoder") from error
    return NamedEncoder(f"{library}:{model}", encoder)


def _installed_library(name: str) -> tuple[str, str]:
    """Split the name of an encoder into an installed library and the name of the model."""
    prefix, colon, model = name.partition(":")
    if colon and prefix in LIBRARIES:
        libraries: tuple[str, ...] = (prefix,)
    else:
        libraries = LIBRARIES
        model = name
    for library in libraries:
        if find_spec(_module_name(library)) is not None:
            return library, model
    needed = " or ".join(libraries)
    raise RembrandtError(
        f"the encoder {name!r} needs {needed}: pip install 'rembrandt[encoder]'", "encoder"
    )


def _module_name(library: str) -> str:
    """The name under which a library is imported."""
    return library.replace("-", "_")


def name_of(encoder: Any) -> str:
    """Return the name of an encoder: its attribute ``name``, or the name of its class."""
    name = getattr(encoder, "name", None)
    if isinstance(name, str):
        return name
    kind = type(encoder)
    return f"{kind.__module__}.{kind.__qualname__}"


def encoded(encoder: Any, texts: list[str], width: int | None = None) -> NDArray[np.float32]:
    """Return the vectors of texts, scaled to unit length.

    Parameters
    ----------
    encoder : object
        An object with ``encode(list of str)``.
    texts : list of str
        The texts.
    width : int, default=None
        The number of dimensions that vectors must have, where it is known.

    Returns
    -------
    ndarray of shape (n_texts, width)

    Raises
    ------
    DataError
        If ``encode`` does not return one finite vector for each text, all of one width.
    """
    vectors = np.empty((0, width or 1))
    if texts:
        vectors = np.asarray(encoder.encode(texts))
    is_matrix = vectors.ndim == 2 and vectors.dtype.kind in "fiu"
    if not is_matrix or vectors.shape[0] != len(texts) or vectors.shape[1] == 0:
        raise DataError(
            f"encode returned an array of {vectors.dtype} of shape {vectors.shape} for "
            f"{len(texts):,} texts; expected one vector for each",
            parameter="encoder",
        )
    if width is not None and vectors.shape[1] != width:
        raise DataError(
            f"vectors of the encoder {name_of(encoder)!r} have {vectors.shape[1]:,} dimensions, "
            f"and those of the fit had {width:,}; give the same encoder",
            parameter="encoder",
        )
    if not np.isfinite(vectors).all():
        raise DataError("encode returned a value that is not finite", parameter="encoder")
    return np.asarray(normalize_rows(vectors.astype(np.float32)))
