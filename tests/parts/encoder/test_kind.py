"""The counted work of an encoder."""

from dataclasses import replace

import numpy as np
import pytest

from rembrandt.parts.encoder import kind as encoder_kind
from rembrandt.parts.encoder.fit import MOST_EPOCHS, network_of
from rembrandt.parts.encoder.settings import EncoderSettings
from rembrandt.parts.encoder.text_encoder import GivenEncoder
from rembrandt.parts.registry import KINDS
from tests.estimators.problems import examples
from tests.parts.encoder.conftest import Letters

N, N_LABELS = 30, 6


def counted(settings):
    Y = np.eye(N_LABELS, dtype=np.float32)[np.arange(N) % N_LABELS]
    return KINDS["encoder"].work(settings, examples(np.ones((N, 2), np.float32), Y)).dense


def test_every_token_is_multiplied_with_the_weights_of_the_layers(encoder):
    network = network_of(str(encoder))
    arrays = {name: array for name, array in network.weights.items() if ".layer." in name}
    n_weights = sum(array.size for array in arrays.values() if array.ndim == 2)
    settings = EncoderSettings(str(encoder), training="frozen", max_tokens=7).with_defaults()
    assert counted(settings) == 7 * n_weights * N
    n_tokens = min(network.max_tokens, encoder_kind.USUAL_TOKENS)
    assert counted(replace(settings, max_tokens="auto")) == n_tokens * n_weights * N
    too_many = replace(settings, max_tokens=10 * network.max_tokens)
    assert counted(too_many) == network.max_tokens * n_weights * N


@pytest.mark.parametrize("epochs", [5, "auto"])
def test_training_goes_forward_and_back_and_has_an_output_for_each_label(encoder, epochs):
    network = network_of(str(encoder))
    settings = EncoderSettings(str(encoder), training="frozen", max_tokens=7).with_defaults()
    frozen = counted(settings)
    tuned = counted(replace(settings, training="fine-tune", epochs=epochs))
    outputs = network.width * N_LABELS * N
    n_epochs = MOST_EPOCHS if epochs == "auto" else epochs
    assert tuned == pytest.approx(3 * n_epochs * (frozen + outputs))


def test_an_object_costs_as_much_for_every_text():
    settings = EncoderSettings(GivenEncoder("letters", Letters())).with_defaults()
    assert counted(settings) == encoder_kind.OBJECT_WORK * N
