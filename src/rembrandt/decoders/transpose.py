"""The squared-loss optimum of the embedding itself: ``Ŷ = XW Vᵀ``, nothing to fit."""

from array_api_compat import array_namespace

from rembrandt.decoders.decoder import Decoder
from rembrandt.linalg.blocks import Block


def fit_transpose(back: Block) -> Decoder:
    """``back`` (c×k) is the basis that brings the projection back to the labels."""
    xp = array_namespace(back)
    bias = xp.zeros((back.shape[0],), dtype=back.dtype, device=back.device)
    return Decoder(weights=xp.asarray(back.T, copy=True), bias=bias, link="identity")
