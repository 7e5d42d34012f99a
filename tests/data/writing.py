"""Rows written in each format, for the tests to read back."""

import gzip
import json
import lzma
from pathlib import Path

import zstandard
from hypothesis import strategies as st

COMPRESSORS = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
}

Row = tuple[list[int], dict[int, float]]

values = st.floats(width=32, allow_nan=False, allow_infinity=False)
rows = st.lists(
    st.tuples(
        st.lists(st.integers(0, 30), unique=True, max_size=4),
        st.dictionaries(st.integers(0, 60), values, max_size=6),
    ),
    min_size=1,
    max_size=12,
)
names = st.text("abcdefghijklmnopqrstuvwxyzäß0123456789_-.", min_size=1, max_size=8)
words = st.text("abc äöü'\"#$%&()*+,-./;<=>?@[]^{}~", max_size=30).map(
    lambda text: " ".join(text.split())
)
documents = st.lists(
    st.tuples(st.lists(names, unique=True, max_size=3), words.filter(bool)), min_size=1, max_size=10
)


def numeric(rows: list[Row], header: bool) -> bytes:
    lines = [f"{len(rows)} 61 31"] if header else []
    for labels, features in rows:
        lines.append(
            ",".join(map(str, labels)) + " " + " ".join(f"{i}:{v!r}" for i, v in features.items())
        )
    return "\n".join([*lines, ""]).encode()


def vw(rows: list[Row]) -> bytes:
    lines = []
    for labels, features in rows:
        joined = ",".join(f"l{label}" for label in labels)
        lines.append(f"{joined} |n " + " ".join(f"f{i}:{v!r}" for i, v in features.items()))
    return "\n".join([*lines, ""]).encode()


def fasttext(rows: list[tuple[list[str], str]]) -> bytes:
    return "".join(
        " ".join(f"__label__{label}" for label in labels) + f" {text}\n" for labels, text in rows
    ).encode()


def tsv(rows: list[tuple[list[str], str]]) -> bytes:
    return (
        "text\ttags\n" + "".join(f"{text}\t{'|'.join(labels)}\n" for labels, text in rows)
    ).encode()


def csv(rows: list[tuple[list[str], str]]) -> bytes:
    lines = ['"' + text.replace('"', '""') + f'","{"|".join(labels)}"\n' for labels, text in rows]
    return ('text,"tags"\n' + "".join(lines)).encode()


def jsonl(rows: list[tuple[list[str], str]]) -> bytes:
    return "".join(
        json.dumps({"text": text, "tags": labels}) + "\n" for labels, text in rows
    ).encode()


def write(folder: Path, name: str, data: bytes) -> Path:
    """Write bytes under a name, compressed as the name says."""
    path = folder / name
    path.write_bytes(COMPRESSORS.get(path.suffix, COMPRESSORS[""])(data))
    return path
