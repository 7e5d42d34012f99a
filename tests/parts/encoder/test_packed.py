"""Products with the weights of a network by oneDNN."""

import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rembrandt.parts.encoder.network import load_network
from tests.parts.encoder.conftest import WORDS

torch = pytest.importorskip("torch", reason="a network needs torch")
packed = pytest.importorskip("rembrandt.parts.encoder.packed")
running = pytest.importorskip("rembrandt.parts.encoder.running")

if not packed.can_pack():
    pytest.skip("this torch has no products of oneDNN", allow_module_level=True)

SHAPES = [(1, 8, 8), (3, 32, 128), (70, 128, 33), (2, 5, 16, 24)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("has_bias", [True, False])
def test_a_packed_layer_gives_the_same_outputs(shape, has_bias):
    torch.manual_seed(0)
    *rows, n_inputs, n_outputs = shape
    layer = torch.nn.Linear(n_inputs, n_outputs, bias=has_bias)
    inputs = torch.randn(*rows, n_inputs)
    with torch.inference_mode():
        expected = layer(inputs)
        outputs = packed.PackedLinear(layer)(inputs)
    assert outputs.shape == expected.shape
    assert_allclose(outputs, expected, rtol=1e-5, atol=1e-5)


def layers_of(module, kind):
    return [layer for layer in module.modules() if type(layer) is kind]


def test_a_network_on_the_cpu_has_packed_layers_only(encoder):
    network = load_network(str(encoder))
    encoding = running.RunningNetwork(network, "cpu")
    n_products = 2 * 6  # layers, and products of one
    assert len(layers_of(encoding._module, packed.PackedLinear)) == n_products
    assert layers_of(encoding._module, torch.nn.Linear) == []


def test_what_is_more_than_a_linear_layer_stays(encoder):
    class Other(torch.nn.Linear):
        pass

    module = torch.nn.Sequential(torch.nn.Linear(4, 4), Other(4, 4))
    packed.pack_weights(module)
    assert layers_of(module, Other) != []
    assert layers_of(module, torch.nn.Linear) == []


def test_a_text_has_the_same_vector_in_any_batch(encoder):
    """Up to rounding: padding and the number of rows change the order of additions."""
    encoding = running.RunningNetwork(load_network(str(encoder)), "cpu")
    texts = [" ".join(WORDS[:length]) for length in range(1, len(WORDS) + 1)] * 5
    together = encoding.encode(texts, 64)
    for row in (0, 3, len(texts) - 1):
        alone = encoding.encode([texts[row]], 64)
        assert_allclose(alone[0], together[row], rtol=1e-4, atol=1e-5)
    assert_array_equal(encoding.encode(texts, 64), together)


def test_without_onednn_layers_stay_as_they_are(encoder, monkeypatch):
    network = load_network(str(encoder))
    expected = running.RunningNetwork(network, "cpu").encode(WORDS, 64)
    monkeypatch.setattr(packed.platform, "machine", lambda: "aarch64")
    plain = running.RunningNetwork(network, "cpu")
    assert layers_of(plain._module, packed.PackedLinear) == []
    assert_allclose(plain.encode(WORDS, 64), expected, rtol=1e-4, atol=1e-5)
