"""The encoder as a kind of part."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from rembrandt.data.examples import Examples
from rembrandt.engines.backend import Backend
from rembrandt.errors import SettingsError
from rembrandt.memory import Shape
from rembrandt.parts.allowance import Allowance, Work
from rembrandt.parts.embedding.settings import EmbeddingSettings
from rembrandt.parts.embedding.update import updated, with_empty_labels
from rembrandt.parts.encoder.fit import (
    MOST_EPOCHS,
    fit_encoder,
    is_network,
    network_of,
    texts_of,
    with_vectors,
)
from rembrandt.parts.encoder.head import names_of_labels
from rembrandt.parts.encoder.memory import expected_tokens, host_bytes, training_bytes
from rembrandt.parts.encoder.part import EncoderPart
from rembrandt.parts.encoder.settings import PRESETS, EncoderSettings, name_of
from rembrandt.parts.encoder.text_encoder import (
    GivenEncoder,
    TextEncoder,
)
from rembrandt.parts.protocol import Choice, Fitting, Part, PartKind, Update, Updated

# Tokens of a text where their number is not known yet, when work is counted.
USUAL_TOKENS = 64
# Multiply-adds of an object that encodes a text, about which nothing is known.
OBJECT_WORK = 1e8
# A pass forward and back, relative to one forward.
TRAINING_PASSES = 3


class EncoderKind(PartKind):
    """An encoder of texts; see `rembrandt.parts.encoder.part`."""

    name = "encoder"
    title = "encoder"
    settings_type = EncoderSettings
    part_type = EncoderPart
    presets: ClassVar = PRESETS
    reads_texts = True
    shares_cores = False

    def on_device(self, settings: EncoderSettings, backend: Backend) -> EncoderSettings:
        if settings.training != "auto":
            return settings
        is_gpu = backend.device.startswith("cuda") and is_network(settings.name)
        return replace(settings, training="fine-tune" if is_gpu else "frozen")

    def resolve(
        self, settings: EncoderSettings, data: Examples, allowance: Allowance, is_alone: bool
    ) -> EncoderSettings:
        texts_of(data)
        name = settings.name
        if name is None:
            raise SettingsError("encoder=None names no encoder; give a name or a folder", "encoder")
        if not isinstance(name, str | TextEncoder):
            settings = replace(settings, name=GivenEncoder(name_of(name), name))
        if settings.training == "auto":
            settings = replace(settings, training="frozen")
        if is_network(settings.name):
            network_of(settings.name)  # refuse what cannot be loaded before any work
        elif settings.training == "fine-tune" or settings.include_encoder:
            raise SettingsError(
                "training='fine-tune' and include_encoder=True need the name or the folder of a "
                f"network; {name_of(settings.name)!r} can be used with training='frozen'",
                "training",
            )
        has_names = names_of_labels(data) is not None
        if settings.start == "auto":
            settings = replace(settings, start="names" if has_names else "random")
        if settings.start == "names" and not has_names:
            raise SettingsError(
                "start='names' needs names for most labels; give label_names, or leave start out",
                "start",
            )
        return settings

    def uses_stopping_rows(self, settings: EncoderSettings) -> bool:
        return bool(settings.training == "fine-tune" and settings.epochs == "auto")

    def keeps_trial(self, settings: EncoderSettings) -> bool:
        return settings.training == "fine-tune" and not settings.refit

    def settled(self, settings: EncoderSettings, parts: list[Any]) -> EncoderSettings:
        if settings.training == "fine-tune" and settings.epochs == "auto":
            epochs = int(np.median([part.fitted.epochs for part in parts]))
            settings = replace(settings, epochs=max(1, epochs))
            if settings.decay_epochs == "auto":
                decay_epochs = int(np.median([part.fitted.decay_epochs for part in parts]))
                settings = replace(settings, decay_epochs=decay_epochs)
        encoder = parts[0].encoder
        if settings.max_tokens == "auto" and is_network(settings.name):
            settings = replace(settings, max_tokens=encoder.max_tokens)
        return settings

    def work(self, settings: EncoderSettings, data: Examples) -> Work:
        """See `PartKind`. Every token of a text is multiplied with the weights of the network."""
        if not is_network(settings.name):
            return Work(dense=OBJECT_WORK * data.n)
        network = network_of(settings.name)
        n_tokens = USUAL_TOKENS if settings.max_tokens == "auto" else settings.max_tokens
        text_work = float(min(n_tokens, network.max_tokens)) * network.n_block_weights
        if settings.training == "frozen":
            return Work(dense=text_work * data.n)
        epochs = MOST_EPOCHS if settings.epochs == "auto" else settings.epochs
        text_work += network.width * data.n_labels
        return Work(dense=TRAINING_PASSES * epochs * text_work * data.n)

    def shape(self, shape: Shape, settings: EncoderSettings, data: Examples) -> Shape:
        if not is_network(settings.name):
            return shape
        network = network_of(settings.name)
        kept = host_bytes(network, data)
        if settings.training == "frozen":
            return replace(shape, text_encoder=kept)
        max_tokens = settings.max_tokens
        if max_tokens == "auto":
            max_tokens = expected_tokens(network, texts_of(data))
        max_tokens = min(max_tokens, network.max_tokens)
        batch_size = min(settings.batch_size, data.n)
        single, mixed = (
            training_bytes(network, data.n_labels, batch_size, max_tokens, is_mixed)
            for is_mixed in (False, True)
        )
        return replace(
            shape, text_encoder=kept, text_training=single, text_training_on_device=mixed
        )

    def fit(self, data: Examples, settings: EncoderSettings, fitting: Fitting) -> EncoderPart:
        if isinstance(fitting.begun, EncoderPart):
            # As it is saved, and not on a device.
            return EncoderPart.from_arrays(*fitting.begun.arrays())
        if not isinstance(settings.name, str):
            # An object is not kept in a checkpoint.
            return fit_encoder(data, settings, fitting)
        part = fitting.checkpoints.load("encoder", EncoderPart.from_arrays)
        if part is None:
            part = fit_encoder(data, settings, fitting)
            fitting.checkpoints.save("encoder", part.arrays)
        return part

    def update(self, part: EncoderPart, update: Update) -> Updated:
        """See `PartKind`. The encoder stays as it is, and what scores its vectors learns."""
        examples = self._encoded(part, update.examples)
        history = None
        if update.history is not None:
            history = self._encoded(part, update.history)
        settings = EmbeddingSettings(decoder="logistic" if part.is_tuned else "ridge")
        decoder_ridge = 0.1
        scorer, missed = updated(
            part.scorer,
            replace(
                update,
                examples=examples,
                history=history,
                settings=replace(settings, decoder_ridge=decoder_ridge).with_defaults(),
                others={},
            ),
        )
        assert isinstance(scorer, type(part.scorer))
        if part.is_tuned:
            missed = ["the fine-tuned encoder scores the known labels as before"]
        return Updated(replace(part, scorer=scorer), missed)

    def with_labels(self, part: EncoderPart, update: Update) -> EncoderPart:
        """See `PartKind`. Labels without examples have no place among its scores."""
        n_new = update.examples.n_labels - part.n_labels
        scorer = with_empty_labels(part.scorer, n_new)
        return replace(part, scorer=scorer)

    def _encoded(self, part: EncoderPart, data: Examples) -> Examples:
        return with_vectors(data, part.encoder.vectors(texts_of(data)))

    def choices(self, settings: EncoderSettings, data: Examples) -> list[Choice]:
        return []

    def words(self, settings: EncoderSettings, part: Part | None = None) -> str:
        words = [name_of(settings.name)]
        words.append("fine-tuned" if settings.training == "fine-tune" else "frozen")
        facts = {} if part is None else part.facts()
        if facts.get("epochs"):
            n_epochs = facts["epochs"] + facts["decay_epochs"]
            words.append(f"{n_epochs} epochs from {facts['start']}")
        return ", ".join(words)
