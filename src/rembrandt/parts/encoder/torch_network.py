"""A network as a module of torch, and the vectors that it gives."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray

from rembrandt.errors import ModelError
from rembrandt.parts.encoder.loading import TYPES_WITH_POOLER
from rembrandt.parts.encoder.network import Network
from rembrandt.parts.encoder.tokens import TOKEN_STEP, Tokens, encoding_batches, padded_width
from rembrandt.progress import Report, silent

# Tokens that are encoded at a time, with padding: on the CPU few, which stay in the cache.
CPU_BATCH_TOKENS = 1024
DEVICE_BATCH_TOKENS = 1 << 15


def build_module(network: Network) -> torch.nn.Module:
    """Build the module of a network; names and shapes of all weights must be those of its
    configuration.
    """
    with torch.device("meta"):
        blank = _empty_module(network)
    expected = {name: tuple(tensor.shape) for name, tensor in blank.state_dict().items()}
    shapes = {name: weights.shape for name, weights in network.weights.items()}
    if shapes != expected:
        unlike = sorted(
            name
            for name in shapes.keys() | expected.keys()
            if shapes.get(name) != expected.get(name)
        )
        raise ModelError(
            f"the weights of the encoder do not belong to its configuration: {unlike[0]!r} has the "
            f"shape {shapes.get(unlike[0])} and should have {expected.get(unlike[0])}"
        )
    module = _empty_module(network)
    tensors = {
        name: torch.from_numpy(weights.astype(np.float32))
        for name, weights in network.weights.items()
    }
    module.load_state_dict(tensors)
    return module.eval()


def _empty_module(network: Network) -> torch.nn.Module:
    """Return the module of a configuration with weights that mean nothing."""
    values = dict(network.config)
    model_type = values.pop("model_type")
    options: dict[str, Any] = {}
    if model_type in TYPES_WITH_POOLER:
        options["add_pooling_layer"] = False
    try:
        config = transformers.AutoConfig.for_model(model_type, **values)
        module: torch.nn.Module = transformers.AutoModel.from_config(
            config, trust_remote_code=False, **options
        )
    except (ValueError, TypeError, RuntimeError, LookupError, ArithmeticError) as cause:
        raise ModelError(f"the configuration of the encoder makes no network: {cause}") from cause
    return module


def pooled(
    module: torch.nn.Module, network: Network, ids: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Return a vector for each row of tokens, in single precision."""
    hidden: torch.Tensor = module(input_ids=ids, attention_mask=mask).last_hidden_state.float()
    if network.pooling == "cls":
        return hidden[:, 0]
    weights = mask[..., None].to(hidden.dtype)
    return (hidden * weights).sum(dim=1) / weights.sum(dim=1)


class DeviceTokens:
    """Tokens on a device, from which padded batches are taken."""

    def __init__(self, tokens: Tokens, network: Network, device: torch.device) -> None:
        self.lengths = tokens.lengths
        self.longest = network.max_tokens
        # A GPU is faster where few widths occur, and the CPU where there is no padding.
        self.width_step = 1 if device.type == "cpu" else TOKEN_STEP
        self.pad = network.pad
        self._ids = torch.from_numpy(tokens.ids).to(device)
        self._starts = torch.from_numpy(tokens.starts[:-1]).to(device)
        self._lengths = torch.from_numpy(self.lengths).to(device)

    def width(self, rows: NDArray[np.int64]) -> int:
        """Return the number of tokens of some rows, with padding."""
        return padded_width(self.lengths[rows], self.longest, self.width_step)

    def batch(self, device_rows: torch.Tensor, width: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the tokens of some rows, and which of them are no padding."""
        return gather_padded(
            self._ids, self._starts[device_rows], self._lengths[device_rows], width, self.pad
        )


def gather_padded(
    values: torch.Tensor,
    starts: torch.Tensor,
    lengths: torch.Tensor,
    width: int,
    fill: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return parts of ``values`` as rows of a matrix, and which of its entries are filled."""
    offsets = torch.arange(width, device=values.device)
    is_filled = offsets < lengths[:, None]
    is_padding = ~is_filled
    positions = (starts[:, None] + offsets).masked_fill(is_padding, 0)
    entries = values[positions].to(torch.int64)
    return entries.masked_fill(is_padding, fill), is_filled.to(torch.int64)


def encode_tokens(
    vectors_of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    tokens: Tokens,
    network: Network,
    device: torch.device,
    report: Report = silent,
) -> NDArray[np.float32]:
    """Return a vector for each text, computed in batches of similar length."""
    vectors = np.empty((tokens.n, network.width), dtype=np.float32)
    on_device = DeviceTokens(tokens, network, device)
    batch_tokens = CPU_BATCH_TOKENS if device.type == "cpu" else DEVICE_BATCH_TOKENS
    done = 0
    with torch.inference_mode():
        for rows in encoding_batches(tokens.lengths, batch_tokens):
            report("encoding texts", done, tokens.n)
            device_rows = torch.from_numpy(rows.copy()).to(device)
            ids, mask = on_device.batch(device_rows, on_device.width(rows))
            vectors[rows] = vectors_of(ids, mask).float().cpu().numpy()
            done += len(rows)
    report("encoding texts", tokens.n, tokens.n)
    return vectors
