"""Encoders of a library that are no network of transformers: model2vec."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rembrandt.errors import RembrandtError

LIBRARY = "model2vec"
PREFIX = f"{LIBRARY}:"


def is_of_library(name: str) -> bool:
    """Whether a name is that of an encoder of the library."""
    return name.startswith(PREFIX)


def load_library_encoder(name: str, offline: bool = False) -> Any:
    """Load an encoder of the library.

    Parameters
    ----------
    name : str
        Name or folder of a model, such as "model2vec:minishlab/potion-base-8M".
    offline : bool, default=False
        Whether nothing is downloaded.

    Returns
    -------
    object
        With ``encode(list of str)``.
    """
    model = name.removeprefix(PREFIX)
    if find_spec(LIBRARY) is None:
        raise RembrandtError(
            f"the encoder {name!r} needs {LIBRARY}: pip install {LIBRARY}", "encoder"
        )
    library = import_module(LIBRARY)
    try:
        if offline and not Path(model).is_dir():
            from huggingface_hub import snapshot_download

            model = snapshot_download(model, local_files_only=True)
        return library.StaticModel.from_pretrained(model)
    except Exception as error:  # the library raises its own, for files and for downloads
        message = (
            f"{LIBRARY} cannot load the encoder {model!r} ({error}); give its name or folder as "
            f"{PREFIX}NAME"
        )
        raise RembrandtError(message, "encoder") from error
