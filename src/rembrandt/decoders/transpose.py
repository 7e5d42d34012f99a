"""The squared-loss optimum of the embedding itself: ``Ŷ = XW Vᵀ``, nothing to fit."""

from array_api_compat import array_namespace

from rembrandt.decoders.decoder import Decoder
from rembrandt.linalg.blocks import Block


def fit_transpose(back: Block, bias: Block | None = None) -> Decoder:
    """``back`` (c×k) is the basis that brings the projection back to the labels; ``bias`` what it does not reach."""
    xp = array_namespace(back)
    zeros = xp.zeros((back.shape[0],), dtype=back.dtype, device=back.device)
    bias = zeros if bias is None else xp.astype(bias, back.dtype)
    return Decoder(weights=xp.asarray(back.T, copy=True), bias=bias, link="identity")
