"""Neighbours of all labels, their places in the plane, and files of them."""

import io

import numpy as np
import pytest

from rembrandt.explore.layout import lay_out
from rembrandt.explore.mapping import WRITERS, LabelMap
from rembrandt.explore.neighbors import nearest_of_each, nearest_rows
from rembrandt.explore.quality import label_quality
from rembrandt.storage.arrays import unpack_strings


def clusters(n=300, k=8, groups=6):
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((groups, k))
    group = np.arange(n) % groups
    return (centres[group] + 0.15 * rng.standard_normal((n, k))).astype(np.float32), group


def test_neighbours_of_all_are_the_neighbours_of_each():
    vectors, _ = clusters(60)
    vectors[7] = 0
    near, cosines = nearest_of_each(vectors, 4)
    assert (near[7] == -1).all() and not (near == 7).any()
    for row in (0, 13, 59):
        wanted = nearest_rows(vectors, row, np.ones(60, bool), 4)
        assert near[row].tolist() == [i for i, _ in wanted]
        np.testing.assert_allclose(cosines[row], [cosine for _, cosine in wanted], rtol=1e-5)


def test_groups_stay_together_and_the_seed_decides():
    vectors, group = clusters()
    told = []
    places = lay_out(vectors, 3, lambda *step: told.append(step))
    distance = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    assert (group[distance.argmin(axis=1)] == group).mean() > 0.95
    np.testing.assert_array_equal(lay_out(vectors, 3), places)
    assert told[0][1] == 0 and told[-1][1] == told[-1][2]


@pytest.mark.parametrize("n", [1, 3, 4, 7])
def test_few_labels_have_places_too(n):
    places = lay_out(np.random.default_rng(0).standard_normal((n, 3)))
    assert places.shape == (n, 2) and np.isfinite(places).all()


def test_a_label_without_a_direction_has_a_place():
    vectors, _ = clusters(40)
    vectors[5] = 0
    assert np.isfinite(lay_out(vectors)).all()


def test_every_writer_writes_what_can_be_read_back():
    import pyarrow.csv
    import pyarrow.feather

    names = ["a,b", 'say "x"', "$\\frac$", "Ärger", "e"]
    placed = LabelMap(
        np.arange(5), names, [None, "title", None, None, None], np.arange(5)[::-1], np.eye(5, 2, dtype=np.float32)
    )
    files = {suffix: io.BytesIO() for suffix in WRITERS}
    for suffix, file in files.items():
        WRITERS[suffix](placed, file)
        file.seek(0)
    assert pyarrow.csv.read_csv(files[".csv"])["label"].to_pylist() == names
    table = pyarrow.feather.read_table(files[".arrow"])
    assert table["label"].to_pylist() == names and table["x"].to_pylist() == placed.places[:, 0].tolist()
    arrays = np.load(files[".npz"])
    assert unpack_strings("names", arrays) == names
    np.testing.assert_array_equal(arrays["places"], placed.places)
    assert files[".png"].read(8) == b"\x89PNG\r\n\x1a\n"


def test_quality_of_labels_counts_what_is_true_predicted_and_both():
    truth = np.array([[1, 0, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]])
    quality = label_quality(truth, np.array([[0, 1], [0, 1], [2, -1]]))
    assert quality.true.tolist() == [3, 1, 1, 0] and quality.predicted.tolist() == [2, 2, 1, 0]
    assert quality.found.tolist() == [2, 1, 0, 0] and quality.f1.tolist() == [0.8, 2 / 3, 0, 0]
    assert np.isnan(quality.recall[3]) and quality.precision.tolist()[:3] == [1.0, 0.5, 0.0]
    best, worst = quality.extremes(1, least=1)
    assert best.tolist() == [0] and worst.tolist() == [2]
