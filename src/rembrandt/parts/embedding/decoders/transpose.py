"""The squared-loss optimum of the embedding itself: ``Ŷ = XW Vᵀ``, with nothing to fit."""

from array_api_compat import array_namespace

from rembrandt.linalg.blocks import Block
from rembrandt.parts.embedding.decoders.decoder import Decoder


def fit_transpose(back: Block, bias: Block | None = None) -> Decoder:
    """Decode by the basis ``back`` (c × k); ``bias`` is the part of the labels outside of it."""
    xp = array_namespace(back)
    if bias is None:
        bias = xp.zeros((back.shape[0],), dtype=back.dtype, device=back.device)
    else:
        bias = xp.astype(bias, back.dtype)
    weights = xp.asarray(back.T, copy=True)
    return Decoder(weights, bias, "identity")
