"""The benchmark of languages on a few records."""

import pytest

from benchmarks import tibkat

pytest.importorskip("snowballstemmer")


@pytest.mark.data
@pytest.mark.skipif(
    not tibkat.FOLDER.is_dir(), reason="REMBRANDT_DATA names no folder with the data sets"
)
def test_a_few_records_with_and_without_languages() -> None:
    train = tibkat.records("train", 500)
    test = tibkat.records("dev", 100)
    assert len(train[0]) == 500
    assert all(subject.startswith("gnd:") for subjects in train[1] for subject in subjects)
    plain = tibkat.measured("fast", train, test)
    of_languages = tibkat.measured("fast, language=auto", train, test)
    assert of_languages["features"] > plain["features"]
    for row in (plain, of_languages):
        assert 0 < row["f1@5"] < row["ndcg@10"] < 1
