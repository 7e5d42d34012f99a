"""A pretrained network as data: its configuration, its weights and its tokenizer.

Nothing here is code: a network is built by the classes of the installed transformers library, for
the types that are listed, and weights are arrays. So a network can be part of a model folder.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rembrandt.errors import DataError, ModelError, RembrandtError
from rembrandt.forks import cached_property
from rembrandt.storage.arrays import Arrays, checked, positive
from rembrandt.storage.files import read_bounded

Pooling = Literal["mean", "cls"]
Shape = tuple[int, ...]

# Types of networks, and the names of their hidden size and of their number of layers.
NETWORK_TYPES: dict[str, tuple[str, str]] = {
    "bert": ("hidden_size", "num_hidden_layers"),
    "camembert": ("hidden_size", "num_hidden_layers"),
    "distilbert": ("dim", "n_layers"),
    "electra": ("hidden_size", "num_hidden_layers"),
    "modernbert": ("hidden_size", "num_hidden_layers"),
    "mpnet": ("hidden_size", "num_hidden_layers"),
    "roberta": ("hidden_size", "num_hidden_layers"),
    "xlm-roberta": ("hidden_size", "num_hidden_layers"),
}
# Names of the size of the inner layers.
INNER_NAMES = ("intermediate_size", "hidden_dim")
# Types whose positions begin after the padding token.
SHIFTED_TYPES = ("camembert", "mpnet", "roberta", "xlm-roberta")
# Entries of a configuration that shape the network; others are left out.
CONFIG_NAMES = (
    "activation",
    "attention_bias",
    "attention_dropout",
    "attention_probs_dropout_prob",
    "bos_token_id",
    "dim",
    "dropout",
    "embedding_dropout",
    "embedding_size",
    "eos_token_id",
    "global_attn_every_n_layers",
    "global_rope_theta",
    "hidden_act",
    "hidden_activation",
    "hidden_dim",
    "hidden_dropout_prob",
    "hidden_size",
    "intermediate_size",
    "layer_norm_eps",
    "local_attention",
    "local_rope_theta",
    "max_position_embeddings",
    "mlp_bias",
    "mlp_dropout",
    "n_heads",
    "n_layers",
    "norm_bias",
    "norm_eps",
    "num_attention_heads",
    "num_hidden_layers",
    "pad_token_id",
    "relative_attention_num_buckets",
    "sinusoidal_pos_embds",
    "type_vocab_size",
    "vocab_size",
)
ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "tanh")
# Largest numbers in a configuration: what is larger is no text encoder.
LARGEST_LAYERS = 128
LARGEST_WIDTH = 1 << 16
LARGEST_VOCABULARY = 1 << 22
LARGEST_POSITIONS = 1 << 17
# Bytes of the files beside the weights.
MAX_FILE_BYTES = 64 << 20
WEIGHT = "network."
TOKENIZER = "tokenizer"
EXTRA = "pip install 'rembrandt[encoder]'"


class WeightsInFiles(Mapping[str, NDArray[np.float16]]):
    """The weights of a network that was read before. They are read again when one is used, so that
    a network of which only sizes and the checksum are used takes no time to load.
    """

    def __init__(self, network_name: str, digest: str, shapes: Mapping[str, Shape]) -> None:
        self.digest = digest  # of the network that has these weights
        self.shapes = shapes
        self._network_name = network_name
        self._weights: Mapping[str, NDArray[np.float16]] | None = None

    def __getitem__(self, name: str) -> NDArray[np.float16]:
        return self._read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)

    def __reduce__(self) -> Any:
        return dict, (dict(self),)  # another process may not have the files

    def _read(self) -> Mapping[str, NDArray[np.float16]]:
        if self._weights is None:
            network = load_network(self._network_name, offline=True)
            if network.digest != self.digest:
                raise DataError(
                    f"the encoder {self._network_name!r} was changed while it was used; fit again "
                    "in a new process",
                    parameter="encoder",
                )
            self._weights = network.weights
        return self._weights


@dataclass(frozen=True)
class Network:
    """A network that turns tokens into a vector."""

    name: str  # under which it was loaded
    config: Mapping[str, Any]
    weights: Mapping[str, NDArray[np.float16]]
    tokenizer: bytes  # JSON of the tokenizers library
    pooling: Pooling = "mean"
    normalize: bool = False  # whether its vectors are scaled to unit length
    max_tokens: int = 512
    licence: str = ""

    @property
    def width(self) -> int:
        """Number of dimensions of a vector."""
        name, _ = NETWORK_TYPES[self.config["model_type"]]
        return int(self.config[name])

    @property
    def n_layers(self) -> int:
        _, name = NETWORK_TYPES[self.config["model_type"]]
        return int(self.config[name])

    @property
    def inner_width(self) -> int:
        """Number of dimensions between the two products of a layer."""
        sizes = [int(self.config[name]) for name in INNER_NAMES if name in self.config]
        return sizes[0] if sizes else 4 * self.width

    @property
    def pad(self) -> int:
        """Number of the token that fills batches."""
        return int(self.config.get("pad_token_id", 0))

    @property
    def weight_shapes(self) -> Mapping[str, Shape]:
        """Shapes of the weights by their names."""
        if isinstance(self.weights, WeightsInFiles):
            return self.weights.shapes
        return {name: weights.shape for name, weights in self.weights.items()}

    @property
    def n_weights(self) -> int:
        return sum(math.prod(shape) for shape in self.weight_shapes.values())

    @cached_property
    def n_block_weights(self) -> int:
        """Number of weights that every token is multiplied with: all but the embeddings."""
        return sum(
            math.prod(shape)
            for name, shape in self.weight_shapes.items()
            if "embeddings" not in name and len(shape) > 1
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that its vectors depend on."""
        if isinstance(self.weights, WeightsInFiles):
            return self.weights.digest
        sha256 = hashlib.sha256(json.dumps(self.facts(), sort_keys=True).encode())
        sha256.update(self.tokenizer)
        for name in sorted(self.weights):
            weights = self.weights[name]
            sha256.update(f"{name} {weights.shape}".encode())
            sha256.update(np.ascontiguousarray(weights).reshape(-1).view(np.uint8).data)
        return sha256.hexdigest()

    def facts(self) -> dict[str, Any]:
        """Return what its vectors depend on besides weights and tokenizer, as JSON."""
        return {
            "config": dict(self.config),
            "pooling": self.pooling,
            "normalize": self.normalize,
            "max_tokens": self.max_tokens,
        }

    def arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the network as named arrays and JSON."""
        arrays: Arrays = {f"{WEIGHT}{name}": array for name, array in self.weights.items()}
        arrays[TOKENIZER] = np.frombuffer(self.tokenizer, dtype=np.uint8)
        return arrays, self.facts() | {"name": self.name, "licence": self.licence}

    @classmethod
    def from_arrays(cls, arrays: Arrays, facts: dict[str, Any]) -> "Network":
        """Rebuild what `arrays` returned. The names and shapes of the weights are compared with
        those of the configuration before the network is built.
        """
        weights = {}
        for name in arrays:
            if name.startswith(WEIGHT):
                shape = (None,) * arrays[name].ndim
                weight = checked(name, arrays, shape, smallest=2)
                if weight.dtype != np.float16:
                    raise ModelError(f"the weights {name!r} are not in half precision")
                weights[name.removeprefix(WEIGHT)] = weight
        tokenizer = checked(TOKENIZER, arrays, (None,), "u")
        if tokenizer.dtype != np.uint8 or len(tokenizer) > MAX_FILE_BYTES or not weights:
            raise ModelError("the encoder has no weights, or a tokenizer that is none")
        return cls.of_facts(facts, str(facts["name"]), weights, tokenizer)

    @classmethod
    def of_facts(
        cls,
        facts: dict[str, Any],
        name: str,
        weights: Mapping[str, NDArray[np.float16]],
        tokenizer: NDArray[np.uint8],
    ) -> "Network":
        """Return a network of weights, a tokenizer and the JSON that `arrays` returned."""
        pooling = facts["pooling"]
        if pooling not in ("mean", "cls") or not isinstance(facts["normalize"], bool):
            raise ModelError("the encoder has an unknown pooling")
        network = cls(
            name=name,
            config=checked_config(facts["config"]),
            weights=weights,
            tokenizer=tokenizer.tobytes(),
            pooling=pooling,
            normalize=facts["normalize"],
            max_tokens=positive(facts["max_tokens"], int),
            licence=str(facts["licence"]),
        )
        if network.max_tokens > most_tokens(network.config):
            raise ModelError("the encoder has fewer positions than tokens")
        return network


def checked_config(config: Any, is_complete: bool = True) -> dict[str, Any]:
    """Return the entries of a configuration that shape a network, after checking them.

    One that is not complete leaves some to the defaults of its type.
    """
    if not isinstance(config, Mapping) or config.get("model_type") not in NETWORK_TYPES:
        kind = config.get("model_type") if isinstance(config, Mapping) else config
        raise ModelError(
            f"{str(kind)[:40]!r} is not a type of network that is supported: "
            f"{', '.join(NETWORK_TYPES)}"
        )
    if config.get("is_decoder") or config.get("add_cross_attention"):
        raise ModelError("the network is a decoder, and only encoders are supported")
    position = config.get("position_embedding_type", "absolute")
    if position not in ("absolute", None):
        raise ModelError(f"positions of the type {position!r} are not supported")
    checked_values: dict[str, Any] = {"model_type": config["model_type"]}
    for name in CONFIG_NAMES:
        value = config.get(name)
        if value is None:
            continue
        checked_values[name] = _checked_value(name, value)
    hidden, layers = NETWORK_TYPES[config["model_type"]]
    for name in (hidden, layers, "vocab_size", "max_position_embeddings"):
        if is_complete and name not in checked_values:
            raise ModelError(f"the configuration of the network has no {name}")
    return checked_values


def _checked_value(name: str, value: Any) -> Any:
    """Return an entry of a configuration if it is within bounds."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        if value not in ACTIVATIONS:
            raise ModelError(f"{name}={value[:40]!r} of the network is not supported")
        return value
    if isinstance(value, float):
        if not 0 <= value <= LARGEST_VOCABULARY:
            raise ModelError(f"{name}={value} of the network is out of range")
        return value
    largest = LARGEST_WIDTH
    least = 1
    if name in ("num_hidden_layers", "n_layers"):
        largest = LARGEST_LAYERS
    elif name == "vocab_size":
        largest = LARGEST_VOCABULARY
    elif name == "max_position_embeddings":
        largest = LARGEST_POSITIONS
    elif name.endswith("_token_id") or "dropout" in name or "theta" in name:
        largest = LARGEST_VOCABULARY
        least = 0
    if not isinstance(value, int) or not least <= value <= largest:
        raise ModelError(f"{name}={str(value)[:40]} of the network is out of range")
    return value


def most_tokens(config: Mapping[str, Any]) -> int:
    """Return how many tokens a network has positions for."""
    positions = int(config["max_position_embeddings"])
    if config["model_type"] in SHIFTED_TYPES:
        positions -= int(config.get("pad_token_id", 1)) + 1
    return positions


def require_libraries(name: str) -> None:
    """Refuse an encoder where the libraries that run it are not installed."""
    missing = [library for library in ("torch", "transformers") if find_spec(library) is None]
    if missing:
        raise RembrandtError(
            f"the encoder {name!r} needs {' and '.join(missing)}: {EXTRA}", "encoder"
        )


def load_network(name: str, offline: bool = False) -> Network:
    """Load a network from a folder, or by its name from a hub or its cache.

    Parameters
    ----------
    name : str
        A folder of transformers or sentence-transformers, or the name of a model.
    offline : bool, default=False
        Whether nothing is downloaded.

    Returns
    -------
    Network
    """
    require_libraries(name)
    from rembrandt.parts.encoder.loading import read_network

    return read_network(name, offline)


def read_json(path: Path) -> Any:
    """Return the JSON of a file beside the weights; None if there is no such file."""
    if not path.is_file():
        return None
    return json.loads(read_bounded(path, MAX_FILE_BYTES))
