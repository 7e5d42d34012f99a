"""Which labels lie under which others."""

import os
from pathlib import Path

import numpy as np
import pytest

from rembrandt.data.hierarchy import MAX_DEPTH, Hierarchy, parents_by_separator
from rembrandt.data.label_parents import read_label_parents
from rembrandt.errors import DataError

FOLDER = Path(os.environ.get("REMBRANDT_DATA", "../shared/data"))


def way_up(parents: dict[str, list[str]], node: str) -> set[str]:
    """The node and all above it, one step after the other."""
    reached = {node}
    for parent in parents.get(node, []):
        reached |= way_up(parents, parent)
    return reached


def random_parents(n: int, seed: int) -> dict[str, list[str]]:
    rng = np.random.default_rng(seed)
    parents = {}
    for child in range(1, n):
        above = rng.choice(child, size=min(child, rng.integers(0, 3)), replace=False)
        parents[f"n{child}"] = [f"n{parent}" for parent in above]
    return parents


@pytest.mark.parametrize("seed", [0, 1])
def test_all_nodes_above_and_below(seed: int) -> None:
    parents = random_parents(40, seed)
    labels = [f"n{number}" for number in range(0, 40, 2)]
    hierarchy = Hierarchy.of(labels, parents)
    names = [*labels, *hierarchy.groups]
    above = hierarchy.above.toarray()
    for row, node in enumerate(names):
        assert {names[i] for i in np.flatnonzero(above[row])} == way_up(parents, node)
    assert np.array_equal(hierarchy.below.toarray(), above.T)
    position = np.empty(len(names), dtype=int)
    position[hierarchy.order] = np.arange(len(names))
    assert (position[hierarchy.parents] < position[hierarchy.children]).all()
    for node in range(len(names)):
        assert [names[i] for i in hierarchy.parents_of(node)] == sorted(
            parents.get(names[node], []), key=names.index
        )
    values = np.random.default_rng(seed).random((3, len(names)))
    largest = hierarchy.largest_below(values)
    for node in range(len(names)):
        below = np.flatnonzero(above[:, node])
        below = below[below != node]
        expected = values[:, below].max(axis=1, initial=-np.inf)
        assert np.array_equal(largest[:, node], expected)


def test_labels_with_parts() -> None:
    labels = ["Art -- France -- 1900", "Art -- Italy", "Music", " -- odd"]
    parents = parents_by_separator(labels, " -- ")
    assert parents == {
        "Art -- France -- 1900": ["Art -- France"],
        "Art -- France": ["Art"],
        "Art -- Italy": ["Art"],
    }
    hierarchy = Hierarchy.of(labels, " -- ")
    assert hierarchy.groups == ["Art -- France", "Art"]
    more = hierarchy.extended([*labels, "Music -- Vienna"])
    assert more.pairs([*labels, "Music -- Vienna"])["Music -- Vienna"] == ["Music"]
    assert more.separator == " -- "


def test_labels_above_themselves_are_refused() -> None:
    for parents in ({"a": ["a"]}, {"a": ["b"], "b": ["c"], "c": ["a"]}):
        with pytest.raises(DataError, match=r"a → .*a.* remove one"):
            Hierarchy.of(["a"], parents)
    chain = {f"n{number}": [f"n{number + 1}"] for number in range(MAX_DEPTH + 10)}
    with pytest.raises(DataError, match="above each other"):
        Hierarchy.of(["n0"], chain)
    with pytest.raises(DataError, match="above themselves"):
        Hierarchy(2, [], np.array([0, 1]), np.array([1, 0]))
    with pytest.raises(DataError, match="none of its nodes"):
        Hierarchy(2, [], np.array([0]), np.array([2]))


def test_tables_of_parents(tmp_path: Path) -> None:
    table = tmp_path / "parents.tsv"
    table.write_text("id\tname\tparents\nfox\tFox\tmammal|predator\nmammal\tMammals\tanimal\n")
    assert read_label_parents(table) == {"fox": ["mammal", "predator"], "mammal": ["animal"]}
    levels = tmp_path / "levels.csv"
    levels.write_text("code,block,chapter\nA00,A00-A09,ch1\nA15,,ch1\n")
    assert read_label_parents(levels, ["block", "chapter"]) == {
        "A00": ["A00-A09"],
        "A00-A09": ["ch1"],
        "A15": ["ch1"],
    }
    with pytest.raises(DataError, match="no column parent"):
        read_label_parents(levels)
    with pytest.raises(DataError, match="no column 'kind'"):
        read_label_parents(levels, ["kind"])
    lines = tmp_path / "parents.jsonl"
    lines.write_text('{"id": "fox", "parents": ["mammal", "predator"]}\n')
    assert read_label_parents(lines) == {"fox": ["mammal", "predator"]}
    (tmp_path / "empty.tsv").write_text("id\tparent\nfox\t\n")
    with pytest.raises(DataError, match="no parents in this file"):
        read_label_parents(tmp_path / "empty.tsv")


def test_tree_numbers(tmp_path: Path) -> None:
    table = tmp_path / "tree.tsv"
    table.write_text(
        "id\tname\ttree_numbers\nD1\tEyes\tA01\nD2\tLid\tA01.2|B07.1\nD3\tSkin\tB07\nD4\tLash\tA01.2.3\n"
    )
    assert read_label_parents(table) == {"D2": ["D1", "D3"], "D4": ["D2"]}
    # In one place E1 lies above E2, in another below it.
    table.write_text("id\ttree_numbers\nE1\tA1|B1.2.3\nE2\tA1.2|B1.2\nE3\tB1\n")
    parents = read_label_parents(table)
    assert parents["E2"] == ["E1", "E3"]
    assert "E1" not in parents


def test_skos(tmp_path: Path) -> None:
    pytest.importorskip("rdflib")
    vocabulary = tmp_path / "animals.ttl"
    vocabulary.write_text(
        """@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
        @prefix e: <http://e.org/> .
        e:fox skos:broader e:mammal ; skos:notation "1.1" .
        e:mammal skos:notation "1" .
        e:animal skos:narrower e:mammal ."""
    )
    assert read_label_parents(vocabulary) == {
        "http://e.org/fox": ["http://e.org/mammal"],
        "1.1": ["1"],
        "http://e.org/mammal": ["http://e.org/animal"],
        "1": ["http://e.org/animal"],
    }


@pytest.mark.data
@pytest.mark.skipif(not FOLDER.is_dir(), reason="REMBRANDT_DATA names no folder with the data sets")
def test_published_hierarchies() -> None:
    mesh = read_label_parents(FOLDER / "mesh" / "descriptors.tsv.gz")
    hierarchy = Hierarchy.of(mesh, mesh)
    assert hierarchy.n_nodes > 30_000
    assert 5 < hierarchy.depths.max() < 30
    codes = read_label_parents(FOLDER / "icd10cm" / "categories.tsv.gz", ["block", "chapter"])
    assert codes["A00"] == ["A00-A09"]
    assert codes["A00-A09"] == ["ch1"]
    assert parents_by_separator(["T1059.001"], ".") == {"T1059.001": ["T1059"]}
