"""Names of labels from tables and SKOS, in models and on disk."""

import gzip
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rembrandt import Dataset, RembrandtClassifier, TextFeatures, load
from rembrandt.data.label_names import read_label_names
from rembrandt.data.label_text import with_label_texts
from rembrandt.errors import DataError, ModelError
from rembrandt.model.folder import load_folder, save_folder

SKOS = """@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
<http://example.org/c1> skos:prefLabel "Kissat"@fi, "Cats"@en ; skos:notation "636.8" ; skos:altLabel "Felines"@en .
<http://example.org/c2> skos:prefLabel "Hunde"@de .
"""
DESCRIBED = """@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
<u:1> skos:prefLabel "Cats"@en ; skos:notation "636.8" ; skos:definition "Katzen"@de, "Small  felines"@en .
<u:1> skos:scopeNote "Not lions"@en .
<u:2> skos:prefLabel "Dogs"@en ; skos:scopeNote "Not wolves"@en ; skos:definition <u:3> .
<u:3> skos:prefLabel <u:1> .
"""
SYNONYMS = """@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
<u:1> skos:prefLabel "Cats"@en ; skos:definition "Small felines"@en ; skos:altLabel "Katzen"@de .
<u:1> skos:altLabel " Felines ", "Cats"@en ; skos:hiddenLabel "catz" .
<u:2> skos:prefLabel "Dogs"@en ; skos:altLabel <u:1> .
"""


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("a.tsv", "id\tname\tmore\nD1\tAbdomen\tx\nD2\tEye\ty\n"),
        ("a.tsv", "name\tid\nAbdomen\tD1\nEye\tD2\n"),
        ("a.tsv", "D1\tAbdomen\nD2\tEye\n"),
        ("a.tsv", "<D1>\tAbdomen\n<D2>\tEye\n\n"),
        ("a.csv", 'label,title\nD1,"Abdomen"\nD2,Eye\nD3,\n'),
        ("a.csv", "id;name\nD1;Abdomen\nD2;Eye\n"),
        (
            "a.jsonl",
            '{"id": "D1", "name": "Abdomen"}\n{"id": "D2", "name": "Eye"}\n{"id": "D3", "name": '
            "null}\n",
        ),
    ],
)
def test_tables(tmp_path, file, text):
    (tmp_path / file).write_text(text)
    assert read_label_names(tmp_path / file) == {"D1": "Abdomen", "D2": "Eye"}
    packed = tmp_path / f"{file}.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert read_label_names(packed) == {"D1": "Abdomen", "D2": "Eye"}


def test_skos(tmp_path):
    rdflib = pytest.importorskip("rdflib")
    (tmp_path / "a.ttl").write_text(SKOS)
    rdflib.Graph().parse(tmp_path / "a.ttl").serialize(tmp_path / "a.rdf", format="xml")
    for name in ("a.ttl", "a.rdf"):
        found = read_label_names(tmp_path / name)
        assert found == {
            "http://example.org/c1": ("Cats", "", "Felines"),
            "636.8": ("Cats", "", "Felines"),
            "http://example.org/c2": "Hunde",
        }
        assert read_label_names(tmp_path / name, "fi")["636.8"] == ("Kissat", "", "Felines")
    (tmp_path / "bad.ttl").write_text("<a> <b> ")
    with pytest.raises(DataError, match=r"bad.ttl: this is not a file in turtle"):
        read_label_names(tmp_path / "bad.ttl")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("a.tsv", "id\tname\tdescription\nD1\tAbdomen\tA  part\nD2\tEye\t\n"),
        ("a.csv", 'description,label,title\n"A\npart",D1,Abdomen\n,D2,Eye\n'),
        ("a.csv", "id,name,definition\nD1,Abdomen,A part\nD2,Eye\n"),
        (
            "a.jsonl",
            '{"id": "D2", "name": "Eye"}\n{"id": "D1", "name": "Abdomen", "description": "A '
            'part"}\n',
        ),
    ],
)
def test_descriptions(tmp_path, file, text):
    (tmp_path / file).write_text(text)
    assert read_label_names(tmp_path / file) == {"D1": ("Abdomen", "A part"), "D2": "Eye"}


def test_descriptions_in_skos(tmp_path):
    pytest.importorskip("rdflib")
    (tmp_path / "a.ttl").write_text(DESCRIBED)
    both = ("Cats", "Small felines")
    assert read_label_names(tmp_path / "a.ttl") == {
        "u:1": both,
        "636.8": both,
        "u:2": ("Dogs", "Not wolves"),
    }


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("a.tsv", "id\tname\tsynonyms\nD1\tAbdomen\tBelly| a  paunch |\nD2\tEye\t\n"),
        ("a.csv", "aliases,id,name\nBelly|a paunch,D1,Abdomen\n,D2,Eye\n"),
        (
            "a.jsonl",
            '{"id": "D1", "name": "Abdomen", "synonyms": ["Belly", "a paunch"]}\n'
            '{"id": "D2", "name": "Eye", "synonyms": null}\n',
        ),
    ],
)
def test_synonyms(tmp_path, file, text):
    (tmp_path / file).write_text(text)
    assert read_label_names(tmp_path / file) == {
        "D1": ("Abdomen", "", "Belly", "a paunch"),
        "D2": "Eye",
    }


def test_alternative_and_hidden_labels_of_skos(tmp_path):
    pytest.importorskip("rdflib")
    (tmp_path / "a.ttl").write_text(SYNONYMS)
    assert read_label_names(tmp_path / "a.ttl") == {
        "u:1": ("Cats", "Small felines", "Felines", "Katzen", "catz"),
        "u:2": "Dogs",
    }


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("a.tsv", "id\tname\n", "no names"),
        ("a.tsv", "only\none\n", "two columns"),
        ("a.csv", "id,name\nD1\n", "expected texts"),
        ("a.jsonl", '{"id": "D1", "name": ["x"]}\n', "expected texts"),
        ("a.jsonl", '{"id": "D1", "name": "x", "description": ["x"]}\n', "expected texts"),
        ("a.csv", "id,description,name\nD1,x\n", "expected texts"),
        ("a.jsonl", '{"id": "D1", "name": "x", "synonyms": {"a": "b"}}\n', "structure"),
        ("a.xlsx", "", "cannot be read from .xlsx"),
    ],
)
def test_files_that_are_refused(tmp_path, file, text, message):
    (tmp_path / file).write_text(text)
    with pytest.raises(DataError, match=message):
        read_label_names(tmp_path / file)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=80), st.sampled_from(["a.tsv", "a.csv", "a.jsonl", "a.ttl"]))
def test_any_text_gives_names_or_a_data_error(tmp_path_factory, text, file):
    path = tmp_path_factory.mktemp("names") / file
    path.write_text(text, encoding="utf-8", errors="replace")
    try:
        for key, given in read_label_names(path).items():
            name, description, *others = (given, "") if isinstance(given, str) else given
            assert isinstance(description, str)
            assert all(isinstance(text, str) and text for text in (key, name, *others))
    except DataError as error:
        assert file in str(error)


@pytest.fixture(scope="module")
def fitted():
    X, y = np.eye(4)[np.arange(40) % 4], np.array(["D1", "D2", "D3", "D4"])[np.arange(40) % 4]
    return RembrandtClassifier(preset="fast", random_state=0).fit(
        X, y, label_names={"D1": "Abdomen", "D3": "Eye"}
    )


def test_a_model_shows_and_finds_names(fitted):
    assert fitted.label_names_ == {"D1": "Abdomen", "D3": "Eye"}
    assert fitted.predict_labels(np.eye(4)) == [["Abdomen"], ["D2"], ["Eye"], ["D4"]]
    index = fitted.model_.labels
    assert [index.shown(i) for i in range(2)] == ["Abdomen (D1)", "D2"]
    assert [index.find(name) for name in ("abdomen", "D3", "eye", "heart")] == [0, 2, 2, None]


def test_names_are_saved_and_loaded(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    assert load(tmp_path / "model").label_names_ == {"D1": "Abdomen", "D3": "Eye"}


def test_descriptions_are_saved_updated_and_replaced(tmp_path):
    X, y = np.eye(4)[np.arange(40) % 4], np.array(["D1", "D2", "D3", "D4"])[np.arange(40) % 4]
    model = RembrandtClassifier(parts="centroids", random_state=0)
    model.fit(X, y, label_names={"D1": ("Abdomen", "A part"), "D2": "Eye", "D3": ("", "No name")})
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.label_descriptions_ == {"D1": "A part", "D3": "No name"}
    assert (
        again.label_names_ == {"D1": "Abdomen", "D2": "Eye"}
        and again.model_.labels.title(2) == "D3"
    )
    assert "2 with a name, 2 with a description" in again.describe()["trained_on"]["words"]
    new = Dataset.from_arrays(X[:2], ["D5", "D1"])
    again.update_dataset(replace(new, label_names={"D5": ("Nose", "A new part"), "D1": "Belly"}))
    assert (
        again.label_descriptions_ == {"D3": "No name", "D5": "A new part"}
        and again.label_names_["D1"] == "Belly"
    )
    again.save(tmp_path / "updated")
    again = load(tmp_path / "updated").set_label_names({"D2": "Eye"})
    assert again.label_descriptions_ == {} and again.label_names_ == {"D2": "Eye"}
    with pytest.raises(DataError, match="tuples of a name and a description"):
        again.set_label_names({"D2": ("Eye", 3)})


def test_a_folder_without_names_is_loaded(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    arrays, metadata = load_folder(tmp_path / "model")
    save_folder(
        tmp_path / "none",
        {n: a for n, a in arrays.items() if not n.startswith("label_names")},
        metadata,
    )
    assert load(tmp_path / "none").label_names_ == {}


@pytest.mark.parametrize(
    "change",
    [
        {"label_names.ends": np.array([3, 2, 10, 10])},
        {"label_names.ends": np.array([7, 7, 10])},
        {"label_names.ends": np.array([7, 7, 9, 9])},
        {"label_names.ends": np.array([7.0, 7.0, 10.0, 10.0])},
        {"label_names.utf8": np.full(10, 255, np.uint8)},
    ],
)
def test_damaged_names_are_refused(fitted, tmp_path, change):
    fitted.save(tmp_path / "model")
    arrays, metadata = load_folder(tmp_path / "model")
    save_folder(tmp_path / "bad", dict(arrays) | change, metadata)
    with pytest.raises(ModelError, match="label_names"):
        load(tmp_path / "bad")


def test_classes_name_the_columns_of_a_matrix():
    from scipy import sparse

    Y = sparse.csr_array(np.eye(4, dtype=int)[np.arange(40) % 4])
    X = np.eye(4)[np.arange(40) % 4]
    fitted = RembrandtClassifier(preset="fast", random_state=0).fit(
        X, Y, classes=["z", "a", "m", "b"]
    )
    assert fitted.classes_.tolist() == ["z", "a", "m", "b"]
    assert fitted.predict_topk(np.eye(4), 1)[0][:, 0].tolist() == ["z", "a", "m", "b"]
    assert fitted.predict(X).shape == Y.shape and (fitted.predict(X) != Y).nnz == 0
    with pytest.raises(DataError, match="4 columns and there are 2 classes"):
        RembrandtClassifier(preset="fast").fit(X, Y, classes=["a", "b"])


def test_names_that_fit_no_label_are_refused(fitted):
    with pytest.raises(DataError, match="none of the 1 names"):
        fitted.set_label_names({"X9": "Nothing"})
    with pytest.raises(DataError, match="2 names for 4 labels"):
        fitted.set_label_names(["a", "b"])
    fitted.set_label_names({"D1": "Abdomen", "D3": "Eye"})


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from("abcd"), max_size=3), min_size=1, max_size=5),
    st.dictionaries(st.sampled_from("abcdefg"), st.text("xyz ", min_size=1, max_size=5)),
)
def test_texts_of_labels_are_examples(lists, texts):
    data = Dataset.from_arrays(Y=lists, texts=["text"] * len(lists))
    joined = with_label_texts(data, texts)
    rows = [{joined.label_ids[j] for j in joined.Y[[i]].indices} for i in range(joined.n_examples)]
    assert rows == [*map(set, lists), *({label} for label in texts)]
    described = with_label_texts(data, {label: (text, "More") for label, text in texts.items()})
    assert described.texts == [*data.texts, *(f"{text}. More" for text in texts.values())]
    assert joined.texts == [*data.texts, *texts.values()] and joined.label_ids == sorted(
        {*data.label_ids, *texts}
    )


def test_a_label_without_an_example_is_predicted_by_its_text():
    texts = ["red apple", "green apple", "red car", "fast car"] * 10
    data = Dataset.from_arrays(Y=[["fruit"], ["fruit"], ["vehicle"], ["vehicle"]] * 10, texts=texts)
    joined = with_label_texts(data, {"bird": "an eagle or a crow", "crow": "a crow"})
    fitted = RembrandtClassifier(
        preset="fast", text=TextFeatures(min_df=1), random_state=0
    ).fit_dataset(joined)
    assert "bird" in fitted.predict_topk(["the eagle"], k=1)[0][0].tolist()
    with pytest.raises(DataError, match="examples that are texts"):
        with_label_texts(Dataset.from_arrays(np.eye(2), ["a", "b"]), {"a": "x"})
