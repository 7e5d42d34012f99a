"""Reading a network with the transformers library: from a folder, or by its name.

Only configurations of the listed types are accepted, weights in the safetensors format, and no code
that comes with a model.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import transformers
from numpy.typing import NDArray
from transformers.utils import cached_file, logging

from rembrandt.errors import ModelError, RembrandtError, StorageError
from rembrandt.parts.encoder.network import (
    Network,
    Pooling,
    checked_config,
    most_tokens,
    read_json,
)

# Types with a layer after the last one, which is of no use here.
TYPES_WITH_POOLER = ("bert", "camembert", "mpnet", "roberta", "xlm-roberta")
# Modules of sentence-transformers that a network may consist of.
KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")
# Tokens that a text may have where nothing says otherwise.
USUAL_TOKENS = 512
# Of the page that describes a model, in which the licence stands at the beginning.
_CARD_CHARACTERS = 1 << 16


def read_network(name: str, offline: bool) -> Network:
    """Read a network; see `load_network`."""
    is_folder = Path(name).is_dir()
    options: dict[str, Any] = {
        "local_files_only": offline or is_folder,
        "trust_remote_code": False,
    }
    try:
        with _quiet():
            return _read(name, options)
    except (ModelError, StorageError) as cause:
        raise RembrandtError(f"the encoder {name!r} cannot be used: {cause}", "encoder") from cause
    except (OSError, ValueError, KeyError, ImportError, RecursionError) as cause:
        reason = str(cause).strip().splitlines()[0]
        raise RembrandtError(
            f"the encoder {name!r} cannot be loaded ({reason}); give a folder with config.json, "
            "tokenizer.json and model.safetensors, or a name where a hub can be reached",
            "encoder",
        ) from cause


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the library from reporting what it does not need."""
    verbosity = logging.get_verbosity()
    had_bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if had_bars:
            logging.enable_progress_bar()


def _read(name: str, options: dict[str, Any]) -> Network:
    # What a folder says is checked before the library acts on it.
    stated, _ = transformers.PretrainedConfig.get_config_dict(name, **options)
    checked_config(stated, is_complete=False)
    full_config = transformers.AutoConfig.from_pretrained(name, **options)
    config = checked_config(full_config.to_dict() | stated)
    pooling, normalize, longest = _sentence_settings(name, options)
    tokenizer = transformers.AutoTokenizer.from_pretrained(name, **options)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ModelError("it has no fast tokenizer (tokenizer.json)")
    backend.no_padding()
    backend.no_truncation()
    limits = [most_tokens(config), int(min(tokenizer.model_max_length, 1 << 20)), longest]
    return Network(
        name=name,
        config=config,
        weights=_weights(name, config["model_type"], options),
        tokenizer=backend.to_str().encode(),
        pooling=pooling,
        normalize=normalize,
        max_tokens=min(limits),
        licence=_licence(name, options),
    )


def _weights(name: str, model_type: str, options: dict[str, Any]) -> dict[str, NDArray[np.float16]]:
    """Return the weights in half precision."""
    pooler = {}
    if model_type in TYPES_WITH_POOLER:
        pooler = {"add_pooling_layer": False}
    module = transformers.AutoModel.from_pretrained(name, use_safetensors=True, **pooler, **options)
    weights = {}
    for weight_name, tensor in module.state_dict().items():
        rounded = tensor.float().numpy().astype(np.float16)
        if not np.isfinite(rounded).all():
            raise ModelError(f"its weights {weight_name!r} are too large for half precision")
        weights[weight_name] = rounded
    return weights


def _sentence_settings(name: str, options: dict[str, Any]) -> tuple[Pooling, bool, int]:
    """Return the pooling, whether vectors have unit length, and the largest number of tokens, as
    the files of sentence-transformers say.
    """
    modules = _json_file(name, "modules.json", options)
    if modules is None:
        return "mean", False, USUAL_TOKENS
    pooling: Pooling = "mean"
    normalize = False
    for module in modules:
        kind = str(module["type"]).rpartition(".")[2]
        if kind not in KNOWN_MODULES:
            raise ModelError(f"it has a module {kind!r}, which is not supported")
        if kind == "Pooling":
            pooling = _pooling(_json_file(name, f"{module['path']}/config.json", options) or {})
        if kind == "Normalize":
            normalize = True
    sentence_config = _json_file(name, "sentence_bert_config.json", options) or {}
    longest = int(sentence_config.get("max_seq_length") or USUAL_TOKENS)
    return pooling, normalize, longest


def _pooling(config: dict[str, Any]) -> Pooling:
    """Return the pooling that a configuration of sentence-transformers states."""
    if config.get("pooling_mode") in ("mean", "cls"):
        pooling: Pooling = config["pooling_mode"]
        return pooling
    modes = [mode for mode, is_used in config.items() if mode.startswith("pooling") and is_used]
    if modes in ([], ["pooling_mode_mean_tokens"]):
        return "mean"
    if modes == ["pooling_mode_cls_token"]:
        return "cls"
    raise ModelError(f"its pooling ({', '.join(modes)}) is not supported; mean and cls are")


def _json_file(name: str, file: str, options: dict[str, Any]) -> Any:
    path = _file(name, file, options)
    return None if path is None else read_json(path)


def _file(name: str, file: str, options: dict[str, Any]) -> Path | None:
    """Return a file of a model, None if there is none."""
    if Path(name).is_dir():
        path = Path(name) / file
        return path if path.is_file() else None
    cached = cached_file(
        name,
        file,
        local_files_only=options["local_files_only"],
        _raise_exceptions_for_gated_repo=False,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return None if cached is None else Path(cached)


def _licence(name: str, options: dict[str, Any]) -> str:
    """Return the licence that the card of a model states, "" if it states none."""
    path = _file(name, "README.md", options)
    if path is None:
        return ""
    with path.open(encoding="utf-8", errors="replace") as file:
        card = file.read(_CARD_CHARACTERS)
    match = re.search(r"^license:\s*([\w.+-]{1,60})\s*$", card, flags=re.MULTILINE)
    return "" if match is None else match[1]
