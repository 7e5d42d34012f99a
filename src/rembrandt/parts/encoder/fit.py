"""Fitting an encoder: fine-tune its network with the labels, or embed the labels by its vectors."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.data.examples import Examples
from rembrandt.data.rows import as_rows
from rembrandt.errors import DataError
from rembrandt.parts.allowance import ALLOWANCES
from rembrandt.parts.embedding.decoders.logistic import usable_rows
from rembrandt.parts.embedding.kind import EmbeddingKind
from rembrandt.parts.embedding.settings import PRESETS as EMBEDDING_PRESETS
from rembrandt.parts.embedding.settings import EmbeddingSettings
from rembrandt.parts.encoder.head import Encode, Head, names_of_labels, starting_head
from rembrandt.parts.encoder.known import known_network
from rembrandt.parts.encoder.libraries import is_of_library
from rembrandt.parts.encoder.memory import expected_tokens
from rembrandt.parts.encoder.network import Network
from rembrandt.parts.encoder.part import EncoderFacts, EncoderPart, tuned_part
from rembrandt.parts.encoder.settings import EncoderSettings
from rembrandt.parts.encoder.text_encoder import (
    LibraryEncoder,
    NetworkEncoder,
    ReferencedEncoder,
    TextEncoder,
)
from rembrandt.parts.encoder.tokens import Tokenizer, usual_tokens
from rembrandt.parts.protocol import Fitting
from rembrandt.storage.checkpoints import NamedCheckpoints

# Epochs of which the best is taken, and epochs where no rows say which is.
MOST_EPOCHS = 20
USUAL_EPOCHS = 6
# Log-odds of a label without examples.
LOG_ODDS_WITHOUT_EXAMPLES = -30.0


@lru_cache(maxsize=2)
def network_of(name: str) -> Network:
    """Return a network; a fit asks for it several times."""
    return known_network(name)


def is_network(name: Any) -> bool:
    """Whether the name of an encoder is that of a network, and not of an object or of a library."""
    return isinstance(name, str) and not is_of_library(name)


def texts_of(data: Examples) -> list[str]:
    """Return the texts of examples; refuse examples without texts."""
    if data.texts is None:
        raise DataError(
            "an encoder reads texts, and these examples have features alone (as stores have); give "
            "texts, or leave the encoder out",
            parameter="encoder",
        )
    texts: list[str] = data.texts.tolist()
    return texts


def fit_encoder(data: Examples, settings: EncoderSettings, fitting: Fitting) -> EncoderPart:
    """Fit an encoder with complete settings."""
    if settings.training == "frozen":
        return fit_frozen(data, settings, fitting)
    return fit_tuned(data, settings, fitting)


def fit_frozen(data: Examples, settings: EncoderSettings, fitting: Fitting) -> EncoderPart:
    """Fit a label embedding of the vectors of a frozen encoder."""
    texts = texts_of(data)
    encoder = frozen_encoder(texts, settings).on(_device(fitting))
    host_encoder = encoder.on("cpu")
    if isinstance(encoder, NetworkEncoder | ReferencedEncoder):
        scored_texts = [] if fitting.scored is None else texts_of(fitting.scored)
        all_texts = [*texts, *scored_texts]
        all_vectors = encoder.stored_vectors(all_texts, fitting.report)
        vectors = all_vectors[: len(texts)]
        host_encoder.keep(scored_texts, all_vectors[len(texts) :])
    else:
        vectors = encoder.vectors(texts, fitting.report)
    examples = with_vectors(data, vectors)
    inner = replace(
        fitting,
        checkpoints=NamedCheckpoints(fitting.checkpoints, "encoder"),
        earlier={},
        begun=None,
    )
    scorer = EmbeddingKind().fit(examples, vector_settings(examples), inner)
    return EncoderPart(host_encoder, scorer, is_tuned=False)


def vector_settings(examples: Examples) -> EmbeddingSettings:
    """Return the settings of a label embedding of vectors.

    They are the same in every preset: next to the encoding the embedding costs little. As in a
    model without trees, its cost is measured by the same without a kernel.
    """
    kind = EmbeddingKind()
    preset = EMBEDDING_PRESETS["balanced"].overridden_by(EmbeddingSettings(normalize=False))
    settings = preset.with_defaults()
    allowance = ALLOWANCES["balanced"]
    linear = kind.resolve(replace(settings, kernel=None), examples, allowance, is_alone=False)
    beside_linear = allowance.beside(kind.work(linear, examples))
    return kind.resolve(settings, examples, beside_linear, is_alone=False)


def with_vectors(data: Examples, vectors: NDArray[np.float32]) -> Examples:
    """Return the examples with vectors as their features."""
    return replace(data, X=as_rows(vectors), vectors=(), texts=None)


def frozen_encoder(texts: list[str], settings: EncoderSettings) -> TextEncoder:
    """Return the encoder of frozen vectors."""
    if isinstance(settings.name, TextEncoder):
        return settings.name
    if is_of_library(settings.name):
        return LibraryEncoder.load(settings.name)
    network = network_of(settings.name)
    max_tokens = settings.max_tokens
    if max_tokens == "auto":
        max_tokens = expected_tokens(network, texts)
    max_tokens = min(max_tokens, network.max_tokens)
    if settings.include_encoder:
        return NetworkEncoder(network, max_tokens, unit_length=True)
    referenced = ReferencedEncoder(network.name, network.digest, network.width, max_tokens)
    referenced.use(network)
    return referenced


def fit_tuned(data: Examples, settings: EncoderSettings, fitting: Fitting) -> EncoderPart:
    """Fine-tune an encoder."""
    import torch

    from rembrandt.parts.encoder.training import Recipe, TrainingRows, fine_tune

    network = network_of(settings.name)
    used = usable_rows(data.Y, data.weights, data.multiclass)
    if len(used) < data.n:
        data = data.take(used)
    tokenizer = Tokenizer.of(network)
    tokens = tokenizer.tokens(texts_of(data), network.max_tokens, fitting.report)
    max_tokens = settings.max_tokens
    if max_tokens == "auto":
        max_tokens = usual_tokens(tokens.lengths, network.max_tokens)
    max_tokens = min(max_tokens, network.max_tokens)
    weights = None
    if data.weights is not None:
        weights = (data.weights / data.weights.mean()).astype(np.float32)
    # Labels without examples have no output: those of the stopping rows alone would be found by
    # their names in the first epochs, and less and less after it.
    used_labels = np.flatnonzero(np.bincount(data.Y.indices, minlength=data.n_labels))
    rows = TrainingRows(tokens.cut(max_tokens), data.Y[:, used_labels], weights)
    stopping = None
    if fitting.stopping is not None:
        stopping_tokens = tokenizer.tokens(texts_of(fitting.stopping), max_tokens)
        stopping = TrainingRows(stopping_tokens, fitting.stopping.Y[:, used_labels])
    epochs = settings.epochs
    if epochs == "auto":
        epochs = USUAL_EPOCHS if stopping is None else MOST_EPOCHS
    decay_epochs = settings.decay_epochs
    if decay_epochs == "auto":
        decay_epochs = 0 if stopping is None else None
    recipe = Recipe(
        max_epochs=epochs,
        batch_size=settings.batch_size,
        network_rate=settings.learning_rate,
        head_rate=settings.head_learning_rate,
        seed=fitting.seed,
        decay_epochs=decay_epochs,
    )
    names = names_of_labels(data)
    encode = _plain_encode(network, max_tokens, fitting)
    head = starting_head(data, names, settings.start, network.width, encode, fitting.seed)
    tuned = fine_tune(
        network,
        Head(head.weights[used_labels], head.bias[used_labels], head.start),
        rows,
        recipe,
        torch.device(_device(fitting)),
        stopping,
        fitting.report,
        NamedCheckpoints(fitting.checkpoints, "encoder"),
    )
    rounded = {name: array.astype(np.float16) for name, array in tuned.weights.items()}
    tuned_network = replace(network, weights={**network.weights, **rounded})
    fitted = EncoderFacts(
        epochs=tuned.epochs,
        decay_epochs=tuned.decay_epochs,
        start=head.start,
        qualities=tuned.qualities,
        losses=tuned.losses,
    )
    head_weights = np.zeros_like(head.weights)
    head_weights[used_labels] = tuned.head_weights
    head_bias = np.full_like(head.bias, LOG_ODDS_WITHOUT_EXAMPLES)
    head_bias[used_labels] = tuned.head_bias
    return tuned_part(tuned_network, max_tokens, head_weights, head_bias, fitted)


def _plain_encode(network: Network, max_tokens: int, fitting: Fitting) -> Encode:
    """Return what encodes texts by the network before it is fine-tuned."""

    def encode(texts: list[str]) -> NDArray[np.float32]:
        encoder = NetworkEncoder(network, max_tokens, unit_length=False, device=_device(fitting))
        return encoder.vectors(texts, fitting.report)

    return encode


def _device(fitting: Fitting) -> str:
    """Return the name of the device that a network runs on: the first."""
    return fitting.backend.device.split(",")[0]
