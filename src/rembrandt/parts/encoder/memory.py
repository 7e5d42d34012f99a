"""Memory that an encoder takes, from the sizes of its network.

Training keeps what the way back needs of every token in every layer: with a hidden size h and inner
layers of i, ``30 h + 4 i`` bytes in mixed precision (counted for the layers of BERT: inputs of
products in two bytes, inputs of normalizations in four, masks of dropout in one).
"""

import numpy as np

from rembrandt.data.examples import Examples
from rembrandt.parts.encoder.network import Network
from rembrandt.parts.encoder.tokens import Tokenizer, usual_tokens

# Bytes for a token and a layer: per hidden and per inner dimension.
MIXED_BYTES = (30, 4)
SINGLE_BYTES = (44, 8)
# Bytes for a dimension of a token outside of the layers: embeddings, and pooling.
OUTER_BYTES = 28
# Copies of every weight in single precision: itself, its gradient, two moments, its mean and the
# best so far; and one in half precision.
WEIGHT_BYTES = 26
# Bytes for an output of a row: the output, its loss and both gradients.
OUTPUT_BYTES = 26
# Copies of the weights in host memory: as they are loaded, trained and saved.
HOST_WEIGHT_BYTES = 14
# One of so many labels has a name that is encoded in a fit (`rembrandt.parts.names.fit`).
LABELS_PER_ENCODED_NAME = 8
# Texts of a sample from which the number of tokens is taken.
SAMPLED_TEXTS = 2000


def training_bytes(
    network: Network, n_labels: int, batch_size: int, max_tokens: int, is_mixed: bool
) -> int:
    """Return the bytes of a fine-tuning on the device where it runs."""
    per_hidden, per_inner = MIXED_BYTES if is_mixed else SINGLE_BYTES
    hidden = network.width
    n_tokens = batch_size * max_tokens
    layer = per_hidden * hidden + per_inner * network.inner_width
    activations = n_tokens * (network.n_layers * layer + OUTER_BYTES * hidden)
    weights = WEIGHT_BYTES * (network.n_weights + n_labels * (hidden + 1))
    outputs = OUTPUT_BYTES * batch_size * n_labels
    return activations + weights + outputs


def host_bytes(network: Network, data: Examples) -> int:
    """Return the bytes that stay in host memory: weights, and vectors of texts and of names."""
    n_vectors = data.n + data.n_labels // LABELS_PER_ENCODED_NAME
    return HOST_WEIGHT_BYTES * network.n_weights + 8 * n_vectors * network.width


def expected_tokens(network: Network, texts: list[str]) -> int:
    """Return how many tokens are read of a text, from a sample of the texts. A fine-tuning, which
    reads the tokens of all of them, hardly ever chooses another number.
    """
    rng = np.random.default_rng(0)
    chosen = rng.permutation(len(texts))[:SAMPLED_TEXTS]
    sample = [texts[row] for row in chosen.tolist()]
    tokens = Tokenizer.of(network).tokens(sample, network.max_tokens)
    return usual_tokens(tokens.lengths, network.max_tokens)
