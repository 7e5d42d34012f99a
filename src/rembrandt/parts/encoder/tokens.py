"""Texts as numbers of tokens, one after the other, and batches of texts of similar length."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.errors import ModelError
from rembrandt.parts.encoder.network import Network
from rembrandt.progress import Report, silent

# Texts that the tokenizer reads at a time.
BLOCK_TEXTS = 4096
# Batches of which the examples are sorted by length together when a network is trained.
POOLED_BATCHES = 64
# Share of the texts that are not cut where the number of tokens is chosen.
WHOLE_SHARE = 0.95
# Numbers of tokens are rounded up to a multiple of this.
TOKEN_STEP = 8


@dataclass(frozen=True)
class Tokens:
    """The tokens of all texts in a row."""

    ids: NDArray[np.int32]
    starts: NDArray[np.int64]  # n + 1

    @property
    def n(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.starts)

    def cut(self, longest: int) -> "Tokens":
        """Return the first tokens of each text; the last one of a text that is cut stays the
        last.
        """
        cut_lengths = np.minimum(self.lengths, longest)
        starts = starts_of(cut_lengths)
        shifts = self.starts[:-1] - starts[:-1]
        positions = np.arange(starts[-1])
        ids = self.ids[positions + np.repeat(shifts, cut_lengths)]
        is_cut = self.lengths > longest
        last_positions = starts[1:] - 1
        last_tokens = self.ids[self.starts[1:] - 1]
        ids[last_positions[is_cut]] = last_tokens[is_cut]
        return Tokens(ids, starts)


def starts_of(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where texts of these lengths start, one after the other, and where the last ends."""
    starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


class Tokenizer:
    """A tokenizer of the tokenizers library, from its JSON."""

    def __init__(self, text: bytes, pad: int, n_known: int) -> None:
        from tokenizers import Tokenizer as FastTokenizer

        with _tokenizer_errors():
            self._tokenizer: Any = FastTokenizer.from_str(text.decode("utf-8"))
            self._tokenizer.no_padding()
            self._tokenizer.no_truncation()
        self.pad = pad
        self.n_known = n_known  # tokens that the network knows

    @classmethod
    def of(cls, network: Network) -> "Tokenizer":
        """Return the tokenizer of a network."""
        return cls(network.tokenizer, network.pad, int(network.config["vocab_size"]))

    def tokens(self, texts: Sequence[str], longest: int, report: Report = silent) -> Tokens:
        """Return the tokens of texts, at most ``longest`` of each."""
        with _tokenizer_errors():
            self._tokenizer.enable_truncation(longest)
        rows = []
        for start in range(0, len(texts), BLOCK_TEXTS):
            report("reading tokens", start, len(texts))
            block_texts = list(texts[start : start + BLOCK_TEXTS])
            with _tokenizer_errors():
                encodings = self._tokenizer.encode_batch_fast(block_texts)
            for encoding in encodings:
                # A text without tokens has one that stands for nothing.
                row = encoding.ids or [self.pad]
                rows.append(np.array(row, dtype=np.int32))
        report("reading tokens", len(texts), len(texts))
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        ids = np.concatenate([np.zeros(0, dtype=np.int32), *rows])
        if ids.max(initial=0) >= self.n_known:
            raise ModelError("the tokenizer of the encoder has tokens that its network has not")
        return Tokens(ids, starts_of(lengths))


@contextmanager
def _tokenizer_errors() -> Iterator[None]:
    """Turn whatever goes wrong in the library into a sentence."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as cause:
        raise ModelError(f"the tokenizer of the encoder cannot be used: {cause}") from cause


def usual_tokens(lengths: NDArray[np.int64], most: int) -> int:
    """Return how many tokens are read of a text: all of those of nearly all texts."""
    if len(lengths) == 0:
        return most
    longest = int(np.quantile(lengths, WHOLE_SHARE, method="higher"))
    n_tokens = rounded_up(longest, TOKEN_STEP)
    return min(max(n_tokens, TOKEN_STEP), most)


def rounded_up(number: int, step: int) -> int:
    """Return the smallest multiple of ``step`` that is not smaller."""
    n_steps = -(-number // step)
    return n_steps * step


def training_batches(
    lengths: NDArray[np.int64], batch_size: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Return all rows in random order, in batches of similar length.

    Rows are sorted by length within some batches, which are then shuffled: the padding is small,
    and batches differ from epoch to epoch.
    """
    n = len(lengths)
    order = rng.permutation(n)
    pool_size = batch_size * POOLED_BATCHES
    pools = np.arange(n) // pool_size
    by_length = np.lexsort((lengths[order], pools))
    order = order[by_length]
    batches = []
    for start in range(0, n, batch_size):
        batch = order[start : start + batch_size]
        batches.append(batch)
    shuffled = rng.permutation(len(batches))
    return [batches[number] for number in shuffled]


def encoding_batches(lengths: NDArray[np.int64], most_tokens: int) -> Iterator[NDArray[np.int64]]:
    """Cut rows, sorted by length, into batches that have about ``most_tokens`` with padding."""
    ascending = np.argsort(lengths, kind="stable")
    order = ascending[::-1]
    start = 0
    while start < len(order):
        longest = int(lengths[order[start]])
        n_rows = max(1, most_tokens // longest)
        yield order[start : start + n_rows]
        start += n_rows


def padded_width(lengths: NDArray[np.int64], longest: int, step: int) -> int:
    """Return the width of a batch: that of its longest row, rounded up to a multiple of ``step``,
    and at most ``longest``.
    """
    width = rounded_up(int(lengths.max()), step)
    return min(width, longest)
