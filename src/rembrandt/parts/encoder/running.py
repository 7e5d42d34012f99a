"""A network that runs: a module of torch on a device, and its tokenizer."""

import numpy as np
import torch
from numpy.typing import NDArray

from rembrandt.parts.encoder.network import Network
from rembrandt.parts.encoder.packed import pack_weights
from rembrandt.parts.encoder.tokens import Tokenizer
from rembrandt.parts.encoder.torch_network import build_module, encode_tokens, pooled
from rembrandt.progress import Report, silent


class RunningNetwork:
    """A network on a device, in single precision."""

    def __init__(self, network: Network, device: str) -> None:
        self.network = network
        self.device = torch.device(device)
        self._tokenizer = Tokenizer.of(network)
        self._module = build_module(network).to(self.device)
        if self.device.type == "cpu":
            pack_weights(self._module)

    def encode(
        self, texts: list[str], max_tokens: int, report: Report = silent
    ) -> NDArray[np.float32]:
        """Return a vector for each text."""
        tokens = self._tokenizer.tokens(texts, max_tokens, report)
        return encode_tokens(self._vectors, tokens, self.network, self.device, report)

    def _vectors(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return pooled(self._module, self.network, ids, mask)
