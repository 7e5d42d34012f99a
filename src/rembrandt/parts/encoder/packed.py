"""Products with the weights of a network on the CPU, by oneDNN.

By itself torch multiplies blocks in single precision by MKL, which uses half of the vector units of
processors that are not Intel's. torch also comes with oneDNN, which uses all of them and reads
weights that are arranged for it once. The products are the same but for rounding.
"""

import platform
from collections.abc import Callable

import torch

# Processors for which both libraries are a part of torch.
PROCESSORS = ("x86_64", "AMD64")


class PackedLinear(torch.nn.Module):
    """A linear layer that has learned, with its weights arranged for oneDNN."""

    def __init__(self, layer: torch.nn.Linear) -> None:
        super().__init__()
        self.weight = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach())
        self.bias = None if layer.bias is None else layer.bias.detach()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the outputs of rows of inputs."""
        outputs: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
            inputs, self.weight, self.bias, "none", [], ""
        )
        return outputs


def can_pack() -> bool:
    """Whether the installed torch has the products of oneDNN."""
    operators = torch.ops.mkldnn
    has_mkldnn: Callable[[], bool] = torch.backends.mkldnn.is_available
    return (
        platform.machine() in PROCESSORS
        and has_mkldnn()
        and hasattr(operators, "_linear_pointwise")
        and hasattr(operators, "_reorder_linear_weight")
    )


def pack_weights(module: torch.nn.Module) -> None:
    """Arrange the weights of all linear layers of a module on the CPU, which then cannot learn."""
    if not can_pack():
        return
    for parent in list(module.modules()):
        for name, layer in list(parent.named_children()):
            if type(layer) is torch.nn.Linear:
                setattr(parent, name, PackedLinear(layer))
