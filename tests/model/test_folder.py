"""Model folders: round trips, the folder kept in the repository, and every way in which a folder
can be damaged.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal
from safetensors.numpy import load_file

from rembrandt import load
from rembrandt.errors import ModelError, OutputExistsError
from rembrandt.model import folder as folder_module
from rembrandt.model.folder import FORMAT_VERSION, load_folder, save_folder
from rembrandt.storage import arrays as storage
from rembrandt.storage.arrays import unpack_csr, unpack_strings

from .make_golden import contents

GOLDEN = Path(__file__).parent / "golden"
FORMAT_1 = Path(__file__).parent / "format_1"

types = st.sampled_from(["f8", "f4", "f2", "i8", "i4", "i1", "u1", "?", ">f4", ">i8"])
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
named_arrays = st.dictionaries(
    st.text(min_size=1, max_size=8), types.flatmap(lambda t: hnp.arrays(t, shapes)), max_size=5
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype.name == array.dtype.name
        assert found[name].flags.aligned
        assert not found[name].flags.writeable
        assert_array_equal(found[name], array, strict=array.dtype.isnative)


@settings(max_examples=50)
@given(named_arrays, st.dictionaries(st.text(), json_values, max_size=4))
def test_round_trip(tmp_path_factory, arrays, metadata):
    folder = tmp_path_factory.mktemp("round") / "model"
    save_folder(folder, arrays, metadata)
    for verify in (True, False):
        found, notes = load_folder(folder, verify)
        assert_same(found, arrays)
        assert notes == metadata


def test_the_same_model_has_the_same_bytes_and_safetensors_reads_it(tmp_path):
    arrays, metadata = contents()
    save_folder(tmp_path / "a", arrays, metadata)
    save_folder(tmp_path / "b", dict(reversed(arrays.items())), metadata)
    for name in ("model.json", "weights.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    theirs = load_file(tmp_path / "a" / "weights.safetensors")
    for name, array in arrays.items():
        assert_array_equal(theirs[name], array)


def test_the_folder_in_the_repository_loads():
    arrays, metadata = contents()
    found, notes = load_folder(GOLDEN)
    assert_same(found, arrays)
    assert notes == metadata
    assert unpack_strings("labels", found) == ["plain", "", "naïve", "日本語"]
    assert_array_equal(unpack_csr("sparse", found).toarray(), np.diag(np.arange(4)))


@pytest.mark.parametrize("verify", [True, False])
def test_weights_that_are_truncated_later_stay_in_memory(tmp_path, verify):
    """A mapped file would end the process here."""
    save_folder(tmp_path / "m", {"w": np.ones(1 << 16)}, {})
    arrays, _ = load_folder(tmp_path / "m", verify)
    os.truncate(tmp_path / "m" / "weights.safetensors", 10)
    assert arrays["w"].sum() == 1 << 16


def test_weights_that_are_truncated_while_they_are_read(tmp_path, monkeypatch):
    save_folder(tmp_path / "m", {"w": np.ones(1 << 16)}, {})
    fill = storage._fill

    def truncated(path, file, chunk):
        os.truncate(path, 1000)
        fill(path, file, chunk)

    monkeypatch.setattr(storage, "_fill", truncated)
    refused(tmp_path / "m", "became shorter while it was read")


def test_a_model_that_is_replaced_while_it_is_read(model, monkeypatch):
    once, read = [], folder_module.read_arrays

    def replaced(*given):
        if not once:
            once.append(save_folder(model, {"w": np.ones(3)}, {"which": "new"}, force=True))
        return read(*given)

    monkeypatch.setattr(folder_module, "read_arrays", replaced)
    arrays, metadata = load_folder(model)
    assert metadata == {"which": "new"} and arrays.keys() == {"w"}


def test_a_model_that_changed_since_it_was_loaded_is_kept(model):
    first = save_folder(model, {"w": np.ones(1)}, {"which": 1}, force=True)
    second = save_folder(model, {"w": np.ones(2)}, {"which": 2}, force=True, expected=first)
    with pytest.raises(OutputExistsError, match="it has changed since it was loaded"):
        save_folder(model, {"w": np.ones(3)}, {"which": 3}, force=True, expected=first)
    assert load_folder(model)[1] == {"which": 2}
    save_folder(model, {}, {"which": 4}, force=True, expected=second)


def test_signatures(tmp_path):
    save_folder(tmp_path / "signed", {"w": np.ones(3)}, {}, sign_key="secret")
    save_folder(tmp_path / "plain", {"w": np.ones(3)}, {})
    assert load_folder(tmp_path / "signed", require_signature=b"secret")[0]["w"].sum() == 3
    assert load_folder(tmp_path / "signed")[0]["w"].sum() == 3
    for name, key in (("signed", "other"), ("plain", "secret")):
        with pytest.raises(ModelError, match="not signed with this key; use it only if"):
            load_folder(tmp_path / name, require_signature=key)
    with pytest.raises(ModelError, match="is empty"):
        save_folder(tmp_path / "none", {}, {}, sign_key="")

    # Other weights, with checksums that are right and the signature of the model before.
    signature = json.loads((tmp_path / "signed" / "model.json").read_text())["signature"]
    save_folder(tmp_path / "signed", {"w": np.zeros(3)}, {}, force=True)
    rewrite_card(tmp_path / "signed", signature=signature)
    load_folder(tmp_path / "signed")
    for verify in (True, False):
        with pytest.raises(ModelError, match="not signed"):
            load_folder(tmp_path / "signed", verify, "secret")


@pytest.mark.parametrize("depth", [200_000, 985, 970, 900])
def test_nested_json(model, depth):
    nested = "[" * depth + "]" * depth
    (model / "model.json").write_text(nested)
    with pytest.raises(ModelError):
        load_folder(model)
    card = {"format": "rembrandt-model", "format_version": FORMAT_VERSION, "metadata": {}}
    card |= {"files": {"weights.safetensors": {"bytes": 0, "sha256": ""}}, "sha256": "0"}
    (model / "model.json").write_text(json.dumps(card)[:-1] + f', "x": {nested}}}')
    with pytest.raises(ModelError):
        load_folder(model)


@pytest.mark.parametrize(
    ("metadata", "complaint"),
    [
        ({1: "a"}, "not a string"),
        ({"a": {2: 1}}, "not a string"),
        ({"a": float("nan")}, "JSON"),
        ({"a": object}, "JSON"),
    ],
)
def test_metadata_that_json_would_change_is_refused(tmp_path, metadata, complaint):
    with pytest.raises(ModelError, match=complaint):
        save_folder(tmp_path / "m", {}, metadata)
    assert list(tmp_path.iterdir()) == []


def test_metadata_that_could_not_be_read_again_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_module, "_MAX_CARD_BYTES", 2000)
    save_folder(tmp_path / "m", {}, {"a": "x" * 1000})
    with pytest.raises(ModelError, match="a model may have 2,000"):
        save_folder(tmp_path / "n", {}, {"a": "x" * 2000})
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    monkeypatch.setattr(folder_module, "_MAX_CARD_BYTES", 1000)
    refused(tmp_path / "m", "has more than 1,000 bytes")


def test_metadata_of_too_many_values_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_module, "MAX_JSON_VALUES", 500)
    save_folder(tmp_path / "m", {}, {"a": [0] * 400})
    with pytest.raises(ModelError, match="a model may have 500; save less"):
        save_folder(tmp_path / "n", {}, {"a": [0] * 500})
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    monkeypatch.setattr(storage, "MAX_JSON_VALUES", 100)
    refused(tmp_path / "m", "has more than 100 values")


@pytest.fixture
def model(tmp_path):
    """A small model."""
    save_folder(tmp_path / "model", *contents())
    return tmp_path / "model"


def rewrite_card(model, **changes):
    card = json.loads((model / "model.json").read_text()) | changes
    (model / "model.json").write_text(json.dumps(card))


def refused(model, pattern, verify=True):
    with pytest.raises(ModelError, match=pattern) as caught:
        load_folder(model, verify)
    message = str(caught.value)
    assert "\n" not in message
    assert any(
        remedy in message
        for remedy in ("copy the model folder again", "check the path", "install", "rename")
    )


def test_missing_files(model):
    refused(model / "nowhere", "no model.json")
    (model / "weights.safetensors").unlink()
    refused(model, "weights.safetensors is missing")
    (model / "model.json").unlink()
    refused(model, "no model.json")


@pytest.mark.parametrize("verify", [True, False])
def test_truncated_and_grown_weights(model, verify):
    weights = model / "weights.safetensors"
    whole = weights.read_bytes()
    for damaged in (whole[:-1], whole[:100], whole[:4], b"", whole + b"\0"):
        weights.write_bytes(damaged)
        refused(model, "bytes instead of", verify)


def test_every_flipped_byte_of_the_weights_is_found(model):
    weights = model / "weights.safetensors"
    whole = weights.read_bytes()
    for at in range(0, len(whole), 7):
        weights.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        refused(model, "checksum")


def test_every_flipped_byte_of_the_card_is_found_or_harmless(model):
    card = model / "model.json"
    whole = card.read_bytes()
    expected = load_folder(model)[1]
    harmless = 0
    for at in range(0, len(whole), 3):
        card.write_bytes(whole[:at] + bytes([whole[at] ^ 2]) + whole[at + 1 :])
        try:
            assert load_folder(model)[1] == expected
            harmless += 1
        except ModelError:
            pass
    assert harmless < len(whole) / 30


def test_bad_json(model):
    (model / "model.json").write_text("{")
    refused(model, "not JSON")
    (model / "model.json").write_bytes(b"\xff\xfe")
    refused(model, "not JSON")
    for other in ("[]", "{}", '{"format": "something else"}'):
        (model / "model.json").write_text(other)
        refused(model, "does not describe")


def test_format_1_is_refused_with_the_advice_to_fit_again():
    with pytest.raises(
        ModelError, match=r"format version 1, and Rembrandt .* reads version 4; fit the model again"
    ):
        load_folder(FORMAT_1)
    with pytest.raises(ModelError, match="fit the model again"):
        load(FORMAT_1)


@pytest.mark.parametrize("version", [2, 3])
def test_older_versions_are_refused_with_the_advice_to_fit_again(model, version):
    rewrite_card(model, format_version=version)
    message = rf"format version {version}, .*reads version 4; fit the model again"
    with pytest.raises(ModelError, match=message):
        load_folder(model)
    with pytest.raises(ModelError, match="fit the model again"):
        load(model)


def test_newer_and_impossible_versions(model):
    rewrite_card(model, format_version=FORMAT_VERSION + 1, library_version="9.1")
    refused(model, "install Rembrandt 9.1")
    for version in (0, -1, "1", None):
        rewrite_card(model, format_version=version)
        refused(model, "format version")


@pytest.mark.parametrize("key", ["metadata", "files", "sha256"])
@pytest.mark.parametrize("verify", [True, False])
def test_a_card_with_a_missing_entry(model, key, verify):
    card = json.loads((model / "model.json").read_text())
    del card[key]
    (model / "model.json").write_text(json.dumps(card))
    refused(model, "is missing", verify)


def test_damaged_header(model):
    weights = model / "weights.safetensors"
    weights.write_bytes(b"\xff" * 8)
    rewrite_card(model, files={weights.name: {"bytes": 8, "sha256": ""}})
    refused(model, "header", verify=False)


def test_force_replaces_a_model_in_use(model):
    before, _ = load_folder(model)
    with pytest.raises(OutputExistsError, match="already exists; choose"):
        save_folder(model, {"of_int8": np.ones(3)}, {})
    save_folder(model, {"of_int8": np.ones(3)}, {"which": "new"}, force=True)
    arrays, metadata = load_folder(model)
    assert metadata == {"which": "new"} and arrays["of_int8"].all()
    assert before["of_int8"].shape == (3, 4), "the old arrays stay as they were"


def test_force_replaces_a_damaged_model(model):
    card = model / "model.json"
    card.write_bytes(card.read_bytes()[:60])
    save_folder(model, {}, {}, force=True)
    load_folder(model)


def test_force_keeps_what_is_not_a_model(model, tmp_path):
    (model / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "model.json").write_text('{"somebody": "else"}')
    for name, reason in (
        ("model", r"notes\.txt"),
        ("file", "not a folder"),
        ("other", "not a model"),
    ):
        with pytest.raises(OutputExistsError, match=reason):
            save_folder(tmp_path / name, {}, {}, force=True)
    assert (model / "notes.txt").exists()
    assert (tmp_path / "other" / "model.json").read_text() == '{"somebody": "else"}'


def test_an_interrupted_save_is_explained(model):
    model.rename(model.with_name(".model.old-12345678"))
    refused(model, r"interrupted save left it at .*old-12345678, rename that back")
