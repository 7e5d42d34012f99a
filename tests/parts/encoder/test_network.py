"""Networks: read from folders, rebuilt from arrays, and refused."""

import json
import shutil

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rembrandt.errors import RembrandtError, StorageError
from rembrandt.parts.encoder.network import Network, load_network
from rembrandt.parts.encoder.text_encoder import NetworkEncoder
from tests.encoders import write_encoder
from tests.parts.encoder.conftest import WORDS

TEXTS = ["red apple", "a fast bus", "", "blue plum pear train " * 30]


@pytest.fixture(scope="module")
def network(encoder):
    return load_network(str(encoder))


def vectors_of(network, **options):
    return NetworkEncoder(network, network.max_tokens, unit_length=False, **options).vectors(TEXTS)


@pytest.mark.parametrize("kind", ["bert", "distilbert", "roberta", "mpnet", "modernbert"])
def test_vectors_are_means_of_what_transformers_computes(kind, tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    folder = write_encoder(tmp_path / kind, WORDS, kind=kind)
    network = load_network(str(folder))
    module = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    expected = []
    for text in TEXTS:
        ids = tokenizer(text, truncation=True, max_length=network.max_tokens)["input_ids"]
        with torch.no_grad():
            hidden = module(input_ids=torch.tensor([ids])).last_hidden_state[0]
        expected.append(hidden.mean(dim=0).numpy())
    assert_allclose(vectors_of(network), expected, atol=5e-3)


def test_arrays_restore_a_network(network):
    arrays, facts = network.arrays()
    restored = Network.from_arrays(arrays, json.loads(json.dumps(facts)))
    assert restored.digest == network.digest
    assert_array_equal(vectors_of(restored), vectors_of(network))
    assert restored.licence == "bsd-3-clause"


def test_the_files_of_sentence_transformers_say_how_vectors_are_made(encoder, tmp_path):
    folder = tmp_path / "sentence"
    shutil.copytree(encoder, folder)
    types = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    modules = [
        {"path": path, "type": f"sentence_transformers.models.{name}"} for path, name in types
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    pooling = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (folder / "1_Pooling/config.json").write_text(json.dumps(pooling))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 12}')
    network = load_network(str(folder))
    assert network.pooling == "cls"
    assert network.normalize
    assert network.max_tokens == 12
    (folder / "1_Pooling/config.json").write_text('{"pooling_mode_max_tokens": true}')
    with pytest.raises(RembrandtError, match="pooling"):
        load_network(str(folder))
    (folder / "1_Pooling/config.json").write_text('{"pooling_mode": "mean"}')
    assert load_network(str(folder)).pooling == "mean"
    modules[2]["type"] = "sentence_transformers.models.Dense"
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(RembrandtError, match="'Dense', which is not supported"):
        load_network(str(folder))


@pytest.mark.parametrize(
    "change",
    [
        {"model_type": "gpt2"},
        {"model_type": "unheard-of", "auto_map": {"AutoModel": "code.Model"}},
        {"is_decoder": True},
        {"hidden_act": "os.system"},
        {"num_hidden_layers": 10**6},
        {"vocab_size": "many"},
        {"hidden_size": 33},
    ],
    ids=str,
)
def test_folders_of_other_networks_are_refused(change, encoder, tmp_path):
    folder = tmp_path / "other"
    shutil.copytree(encoder, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(RembrandtError, match="cannot be"):
        load_network(str(folder))


@pytest.mark.parametrize("file", ["config.json", "modules.json", "tokenizer_config.json"])
def test_deeply_nested_files_are_refused(file, encoder, tmp_path):
    folder = tmp_path / "nested"
    shutil.copytree(encoder, folder)
    (folder / file).write_text('{"a": ' + 20_000 * "[" + 20_000 * "]" + "}")
    with pytest.raises(RembrandtError, match="cannot be loaded"):
        load_network(str(folder))


def test_weights_that_are_pickled_are_not_read(encoder, tmp_path):
    folder = tmp_path / "pickled"
    shutil.copytree(encoder, folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(RembrandtError, match="cannot be loaded"):
        load_network(str(folder))


def other_weights(arrays, facts):
    arrays["network.embeddings.LayerNorm.weight"] = np.ones(31, dtype=np.float16)


def more_weights(arrays, facts):
    arrays["network.more"] = np.ones(3, dtype=np.float16)


def not_finite(arrays, facts):
    arrays["network.embeddings.LayerNorm.weight"] = np.full(32, np.nan, dtype=np.float16)


def wider(arrays, facts):
    arrays["network.embeddings.LayerNorm.weight"] = np.ones(32, dtype=np.float64)


def huge(arrays, facts):
    facts["config"]["num_hidden_layers"] = 1 << 40


def code(arrays, facts):
    facts["config"]["model_type"] = "code"


def too_long(arrays, facts):
    facts["max_tokens"] = 1 << 20


def no_tokenizer(arrays, facts):
    arrays["tokenizer"] = np.frombuffer(b'{"version": "1.0"}', dtype=np.uint8)


def other_tokens(arrays, facts):
    text = arrays["tokenizer"].tobytes().replace(b'"apple":8', b'"apple":999')
    arrays["tokenizer"] = np.frombuffer(text, dtype=np.uint8)


def heads(arrays, facts):
    facts["config"]["num_attention_heads"] = 5


@pytest.mark.parametrize(
    "damage",
    [
        other_weights,
        more_weights,
        not_finite,
        wider,
        huge,
        code,
        too_long,
        no_tokenizer,
        other_tokens,
        heads,
    ],
)
def test_hostile_arrays_are_refused_before_they_are_used(damage, network):
    arrays, facts = network.arrays()
    arrays = dict(arrays)
    facts = json.loads(json.dumps(facts))
    damage(arrays, facts)
    with pytest.raises((RembrandtError, StorageError)):
        vectors_of(Network.from_arrays(arrays, facts))
