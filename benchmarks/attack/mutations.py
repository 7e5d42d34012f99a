"""Ways to damage bytes, arrays and JSON, and to put something else in the place of a file."""

import copy
import os
from pathlib import Path
from typing import Any

import numpy as np

NUMBERS = (0, -1, 1, 2, 255, 2**15, 2**31 - 1, 2**31, -(2**31), 2**62, 2**63 - 1, 10**9)
FLOATS = (np.nan, np.inf, -np.inf, 0.0, -1.0, 1e38, 1e308, 1e-45)
WORDS = (
    b"\0",
    b"\n",
    b"\xff",
    b"\x1b]0;x\x07",
    b"99999999999999999999",
    b"-1",
    b"1e999",
    b"nan",
    b'"',
    b",",
    b"[" * 3000,
)
VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2**31,
        2**63,
        10**30,
        0.5,
        -0.5,
        1e308,
        "",
        "x",
        "\0",
        "softmax",
        [],
        [0],
        {},
        {"a": 1},
    ),
    [[[]]],
    "9" * 5000,
)


def damaged_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Change a few places: bits, bytes, runs that are removed, repeated or moved, and words that
    parsers dislike.
    """
    body = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(len(body) + 1))
        size = int(rng.integers(1, 1 + max(1, min(64, len(body)))))
        match rng.integers(8):
            case 0 if body:
                body[at % len(body)] ^= 1 << int(rng.integers(8))
            case 1 if body:
                body[at % len(body)] = int(rng.integers(256))
            case 2:
                del body[at : at + size]
            case 3:
                body[at:at] = body[at : at + size] * int(rng.integers(1, 4))
            case 4:
                body[at:at] = rng.bytes(size)
            case 5:
                del body[at:]
            case 6:
                body[at:at] = WORDS[int(rng.integers(len(WORDS)))]
            case _:
                body[at : at + 8] = int(rng.choice(NUMBERS)).to_bytes(8, "little", signed=True)
    return bytes(body)


def damage_file(path: Path, rng: np.random.Generator) -> None:
    """Change the bytes of a file, or put something else in its place."""
    if rng.integers(5) == 0:
        replace_file(path, rng)
    else:
        path.write_bytes(damaged_bytes(path.read_bytes(), rng))


def replace_file(path: Path, rng: np.random.Generator) -> None:
    """Put what is no file in the place of one, or a file without contents that seems large."""
    path.unlink()
    match rng.integers(4):
        case 0:
            os.mkfifo(path)  # nobody writes to it
        case 1:
            path.symlink_to("/dev/zero")
        case 2:
            path.mkdir()
        case _:
            with path.open("wb") as file:
                file.truncate(1 << 40)


def damaged_arrays(arrays: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Change one of some named arrays: its values, its length, its shape or its type; or remove
    it.
    """
    out = {name: np.array(array) for name, array in arrays.items()}
    name = str(rng.choice(sorted(out)))
    array = out[name]
    match rng.integers(7):
        case 0:
            del out[name]
        case 1:
            out[name] = array.reshape(-1)[: int(rng.integers(array.size + 1))]
        case 2:
            out[name] = np.concatenate([array.reshape(-1)] * 2)
        case 3:
            out[name] = array.astype(
                str(rng.choice(["f8", "f4", "f2", "i8", "i4", "i1", "u1", "?"]))
            )
        case 4:
            out[name] = array.reshape(-1) if array.ndim != 1 else array[:, None]
        case _ if array.size:
            flat = array.reshape(-1)
            for at in rng.integers(flat.size, size=int(rng.integers(1, 4))):
                value: Any = rng.choice(FLOATS) if array.dtype.kind == "f" else rng.choice(NUMBERS)
                with np.errstate(all="ignore"):
                    flat[at] = np.asarray(value).astype(array.dtype)
        case _:
            out[name] = np.ones(3, dtype=array.dtype)
    return out


def damaged_json(value: Any, rng: np.random.Generator) -> Any:
    """Replace, remove or rename one entry at any depth."""
    out = copy.deepcopy(value)
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key in node if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], dict | list):
                walk(node[key])

    walk(out)
    node, key = places[int(rng.integers(len(places)))]
    match rng.integers(4):
        case 0:
            del node[key]
        case 1 if isinstance(node, dict):
            node[f"{key}x"] = node.pop(key)
        case _:
            node[key] = copy.deepcopy(VALUES[int(rng.integers(len(VALUES)))])
    return out
