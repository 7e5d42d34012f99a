"""Hierarchies from every form of file, from labels that are paths, and from files that are
wrong.
"""

import numpy as np
import pytest
from benchmarks.paper.hierarchy import Hierarchy, read_hierarchy
from hypothesis import given, settings
from hypothesis import strategies as st

from rembrandt.errors import DataError
from tests.data import writing

TREE = b"id\tname\ttree_numbers\n"
PARENTS = b"concept\tdescriptors\n"

names = st.text("abcdxyz0123", min_size=1, max_size=3)
edges = st.lists(st.tuples(names, names), max_size=20)


def families(hierarchy):
    """For each label its parents."""
    found = {label: set() for label in hierarchy.labels}
    for parent, child in hierarchy.edges():
        found[child].add(parent)
    return found


@pytest.mark.parametrize("ending", ["", ".gz", ".xz", ".zst"])
@pytest.mark.parametrize("between", ["\t", " ", "  "])
def test_edges(tmp_path, ending, between):
    rows = ["parent child", "1 2", "1 3", "", "2 4", "3 4", "3 4"]
    text = "\n".join(row.replace(" ", between) for row in rows)
    found = read_hierarchy(writing.write(tmp_path, f"tree.txt{ending}", text.encode()))
    assert families(found) == {"1": set(), "2": {"1"}, "3": {"1"}, "4": {"2", "3"}}
    assert found.matrix.data.tolist() == [1.0] * 4 and found.labels == ["1", "2", "3", "4"]


def test_names_with_spaces_between_tabs(tmp_path):
    path = writing.write(tmp_path, "tree.tsv", b"a dog\this tail\r\na dog\this nose\r\n")
    assert families(read_hierarchy(path)) == {
        "a dog": set(),
        "his tail": {"a dog"},
        "his nose": {"a dog"},
    }


def test_tree_numbers(tmp_path):
    rows = [
        "D1\tBody\tA01",
        "D2\tArm\tA01.100|C02.5",
        "D3\tHand\tA01.100.7",
        "D4\tLeg\tA02",
        "D5\tFemale\t",
    ]
    rows += ["D6\tStray\tZ09.1.2", "D7\tPlain\tB", "D8\tToe\tC02.5.1"]
    path = writing.write(tmp_path, "headings.tsv.gz", TREE + "\n".join(rows).encode())
    found = read_hierarchy(path)
    assert families(found) == {
        "D1": {"tree number A"},  # of the top, the category is the parent
        "D2": {"D1", "tree number C02"},  # no heading has C02
        "D3": {"D2"},
        "D4": {"tree number A"},
        "D5": set(),
        "D6": {"tree number Z09.1"},
        "D7": set(),
        "D8": {"D2"},  # D2 stands in two places, and its children are siblings of each other
    }


def test_a_heading_above_itself_is_a_loop(tmp_path):
    found = read_hierarchy(
        writing.write(tmp_path, "h.tsv", TREE + b"D1\ta\tA01|A01.1\nD2\tb\tA01.1.5\n")
    )
    assert found.loops == 1 and families(found) == {"D1": {"tree number A"}, "D2": {"D1"}}


def test_parents_and_several_files(tmp_path):
    headings = writing.write(tmp_path, "h.tsv", TREE + b"D1\ta\tA01\nD2\tb\tA01.1\n")
    concepts = writing.write(tmp_path, "c.tsv", PARENTS + b"C1\tD1|D2\nC2\tD2\nC3\t\n")
    assert families(read_hierarchy(concepts)) == {
        "C1": {"D1", "D2"}, "C2": {"D2"}, "C3": set(), "D1": set(), "D2": set()
    }  # fmt: skip
    both = read_hierarchy([headings, concepts], labels=["C1", "D2", "D1", "C9"])
    assert families(both) == {
        "C1": {"D1", "D2"},
        "D2": {"D1"},
        "D1": {"tree number A"},
        "C9": set(),
    }
    assert both.unknown == 1


def test_paths():
    labels = ["a:perl:file\\:\\:path", "a:perl:perl", "a:perl", "a", ":x", "x:", "o:a\\\\:b", "\\:"]
    found = read_hierarchy(":", labels=labels)
    assert found.labels == labels and found.unknown == 0
    assert families(found) == {
        labels[0]: {"a:perl"},
        labels[1]: {"a:perl"},
        "a:perl": {"a"},
        "a": set(),
        ":x": {""},
        "x:": {"x"},
        "o:a\\\\:b": {"o:a\\\\"},  # the backslash is itself protected
        "\\:": set(),
    }
    assert families(read_hierarchy("\\", labels=["a\\b\\c"])) == {"a\\b\\c": {"a\\b"}}
    assert families(read_hierarchy("->", labels=["a->b"])) == {"a->b": {"a"}}
    assert families(read_hierarchy(" of ", "path", ["tail of dog"])) == {"tail of dog": {"tail"}}


def test_a_file_named_like_a_separator_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    writing.write(tmp_path, "--", b"a b\n")
    assert families(read_hierarchy("--")) == {"a": set(), "b": {"a"}}


@settings(deadline=None)
@given(edges, st.lists(names, unique=True, max_size=10))
def test_any_graph_keeps_its_edges(pairs, wanted):
    """Cycles, loops and repeats included."""
    whole = Hierarchy.from_edges(pairs)
    kept = {(parent, child) for parent, child in pairs if parent != child}
    assert set(whole.edges()) == kept and whole.matrix.nnz == len(kept)
    assert whole.loops == sum(parent == child for parent, child in pairs)
    known = {name for pair in pairs for name in pair}
    assert set(whole.labels) == known
    part = whole.over(wanted)
    assert part.labels == wanted and part.unknown == len(set(wanted) - known)
    assert set(part.edges()) == {(parent, child) for parent, child in kept if child in wanted}
    part.matrix.check_format(full_check=True)
    assert set(whole.joined(part).edges()) == kept


@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from(["auto", "edges", "tree", "parents"]))
def test_any_bytes_are_read_or_refused(tmp_path_factory, content, format):
    path = writing.write(tmp_path_factory.mktemp("any"), "tree.txt", content)
    try:
        read_hierarchy(path, format)
    except DataError as error:
        assert str(path) in str(error)


CASES = [
    (b"1 2\n1 2 3\n", "auto", 2, "found 3 cells in '1 2 3'; expected a parent and a child"),
    (b"1\t2\n\n1\t\n", "auto", 3, "expected a parent and a child"),
    (b"1 2\n3\n", "edges", 2, "found 1 cells"),
    (b"1 2\n3 \xff\n", "auto", 2, "not UTF-8"),
    (b"1 2 3\n", "auto", None, "give format= one of edges, tree, parents"),
    (b"", "auto", None, "the file is empty"),
    (b" \n\n", "auto", None, "the file is empty"),
    (b"1 1\n", "auto", None, "no label has a parent"),
    (TREE, "auto", None, "no label has a parent in this file, read as format=tree"),
    (TREE + b"D1\ta\tA01\nD2\tb\n", "auto", 3, "found 2 cells.*expected 3"),
    (TREE + b"D1\ta\tA01\n\tb\tA02\n", "auto", 3, "first not empty"),
    (TREE + b"D1\ta\tA01..2\n", "auto", 2, "'A01..2' is not a tree number"),
    (TREE + b"D1\ta\tA01|\n", "auto", 2, r"empty part in 'A01\|'; remove one '\|'"),
    (TREE + b"D1\ta\tA01\n\nD2\tb\tA01\n", "auto", 4, "D2 and D1 both have the tree number A01"),
    (PARENTS + b"C1\tD1||D2\n", "auto", 2, "empty part"),
    (PARENTS + b"C1\tD1\textra\n", "auto", 2, "found 3 cells"),
    (b"1 2\n", "tree", 1, "found 1 cells in '1 2'; expected 3"),
    (b"1 2\n", "word", None, "unknown format 'word'; choose from edges"),
]


@pytest.mark.parametrize(("content", "format", "line", "message"), CASES)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_message_names_file_line_and_remedy(tmp_path, content, format, line, message, ending):
    path = writing.write(tmp_path, "tree.txt" + ending, content)
    with pytest.raises(DataError, match=message) as caught:
        read_hierarchy(path, format)
    assert str(caught.value).startswith(f"{path}, line {line}: " if line else f"{path}: ")


def test_missing_files_and_labels(tmp_path):
    with pytest.raises(DataError, match=r"gone\.txt: there is no such file"):
        read_hierarchy(tmp_path / "gone.txt")
    with pytest.raises(DataError, match="this is a folder"):
        read_hierarchy(tmp_path)
    with pytest.raises(
        DataError, match="':' is a separator of the parts of labels; give the labels too"
    ):
        read_hierarchy(":")
    with pytest.raises(DataError, match="nothing to read"):
        read_hierarchy([])
    with pytest.raises(DataError, match="separator is empty"):
        read_hierarchy("", "path", ["a"])


def test_lines_are_counted_across_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "rembrandt.data.compressed.line_chunks.__defaults__", (lambda *_: None, 16, None)
    )
    path = writing.write(
        tmp_path, "tree.txt", b"".join(b"%d %d\n" % (i, i + 1) for i in range(50)) + b"oops\n"
    )
    with pytest.raises(DataError, match="line 51: found 1 cells"):
        read_hierarchy(path)


@pytest.mark.data
def test_the_headings_of_mesh(real_data):
    found = read_hierarchy(
        real_data / "mesh" / "descriptors.tsv.gz", labels=["D000001", "D005260", "nothing"]
    )
    assert np.diff(found.matrix.indptr).tolist()[1:] == [0, 0] and found.unknown == 1
    assert (
        found.matrix[[0]].nnz >= 1
        and sum(name.startswith("tree number ") for name in found.parents) == 16
    )
