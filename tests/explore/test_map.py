"""Neighbours of labels, maps of labels, and the files that hold them."""

import io

import numpy as np
import pytest

from rembrandt import RembrandtClassifier
from rembrandt.data.generated import labelled_documents
from rembrandt.explore.layout import lay_out
from rembrandt.explore.mapping import WRITERS, LabelMap, label_map
from rembrandt.explore.neighbors import nearest_labels, scaled_vectors, unit_vectors
from rembrandt.storage.arrays import unpack_strings


def clusters(n=300, k=8, groups=6):
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((groups, k))
    group = np.arange(n) % groups
    return (centres[group] + 0.15 * rng.standard_normal((n, k))).astype(np.float32), group


class Embedded:
    """A fitted estimator, as far as its label vectors go."""

    def __init__(self, vectors, values=None, method="rembrandt"):
        self.embedding_, self.method = vectors, method
        self.singular_values_ = np.ones(vectors.shape[1]) if values is None else values


def test_vectors_are_scaled_so_that_inner_products_are_those_of_predictions():
    V, values = np.array([[1.0, 1.0], [1.0, -1.0], [0.0, 2.0]]), np.array([4.0, 0.0])
    np.testing.assert_array_equal(scaled_vectors(Embedded(V, values)), [[2, 0], [2, 0], [0, 0]])
    assert scaled_vectors(Embedded(V, values, "cs")) is V
    assert nearest_labels(unit_vectors(Embedded(V, values)), 5, [0])[0].tolist() == [
        [1, -1, -1, -1, -1]
    ]


def test_neighbours_have_the_largest_cosines():
    vectors, _ = clusters(60)
    vectors[7] = 0
    unit = unit_vectors(Embedded(vectors))
    cosine = np.nan_to_num(unit @ unit.T, nan=-np.inf)
    np.fill_diagonal(cosine, -np.inf)
    near, cosines = nearest_labels(unit, 4)
    assert (near[7] == -1).all() and not (near == 7).any()
    for row in (0, 13, 59):
        np.testing.assert_array_equal(near[row], np.argsort(-cosine[row])[:4])
        np.testing.assert_allclose(cosines[row], np.sort(cosine[row])[::-1][:4], rtol=1e-5)
    allowed = np.arange(60) >= 50
    chosen, _ = nearest_labels(unit, 12, [13, 51, 7], allowed)
    assert (
        (chosen[0] >= 50).sum() == 10 and (chosen[1] >= 50).sum() == 9 and (chosen[2] == -1).all()
    )


@pytest.mark.parametrize("names", ["trees", "centroids", ("trees", "centroids")])
def test_labels_of_models_without_an_embedding_have_neighbours_and_a_map(names):
    train, _ = labelled_documents(600, n_topics=4, labels_per_topic=5)
    classifier = RembrandtClassifier("fast", parts=names, random_state=0).fit_dataset(train)
    near, _ = nearest_labels(unit_vectors(classifier), 2)
    topics = np.array([name.split("/")[0] for name in classifier.classes_])
    assert (topics[near] == topics[:, None]).mean() > 0.9
    mapped = label_map(classifier, 12)
    assert mapped.positions.shape == (12, 2) and np.isfinite(mapped.positions).all()


def test_groups_stay_together_and_the_seed_fixes_the_layout():
    vectors, group = clusters()
    told = []
    positions = lay_out(vectors, 3, lambda *step: told.append(step))
    distance = np.linalg.norm(positions[:, None] - positions[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    assert (group[distance.argmin(axis=1)] == group).mean() > 0.95
    np.testing.assert_array_equal(lay_out(vectors, 3), positions)
    assert told[0][1] == 0 and told[-1][1] == told[-1][2]


@pytest.mark.parametrize("n", [1, 3, 4, 7])
def test_few_labels_get_positions_too(n):
    positions = lay_out(np.random.default_rng(0).standard_normal((n, 3)))
    assert positions.shape == (n, 2) and np.isfinite(positions).all()


def test_a_vector_of_zeros_gets_a_position():
    vectors, _ = clusters(40)
    vectors[5] = 0
    assert np.isfinite(lay_out(vectors)).all()


def test_what_is_written_can_be_read_back():
    import pyarrow.csv

    names = ["a,b", 'say "x"', "$\\frac$", "Ärger", "e"]
    labels = LabelMap(
        np.arange(5),
        names,
        [None, "title", None, None, None],
        np.arange(5)[::-1],
        np.eye(5, 2, dtype=np.float32),
    )
    files = {suffix: io.BytesIO() for suffix in WRITERS}
    for suffix, file in files.items():
        WRITERS[suffix](labels, file)
        file.seek(0)
    table = pyarrow.csv.read_csv(files[".csv"])
    assert (
        table["label"].to_pylist() == names
        and table["x"].to_pylist() == labels.positions[:, 0].tolist()
    )
    arrays = np.load(files[".npz"])
    assert unpack_strings("names", arrays) == names
    np.testing.assert_array_equal(arrays["positions"], labels.positions)
    assert files[".png"].read(8) == b"\x89PNG\r\n\x1a\n"
