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
        lengths = self.lengths
        kept = np.minimum(lengths, longest)
        starts = np.concatenate([[0], np.cumsum(kept)])
        positions = np.arange(starts[-1]) + np.repeat(self.starts[:-1] - starts[:-1], kept)
        ids = self.ids[positions]
        is_cut = lengths > longest
        ids[starts[1:][is_cut] - 1] = self.ids[self.starts[1:][is_cut] - 1]
        return Tokens(ids, starts)


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
        blocks = [np.zeros(0, dtype=np.int32)]
        lengths = [np.zeros(0, dtype=np.int64)]
        for start in range(0, len(texts), BLOCK_TEXTS):
            report("reading tokens", start, len(texts))
            block_texts = list(texts[start : start + BLOCK_TEXTS])
            with _tokenizer_errors():
                encodings = self._tokenizer.encode_batch_fast(block_texts)
            # A text without tokens has one that stands for nothing.
            ids = [encoding.ids or [self.pad] for encoding in encodings]
            lengths.append(np.fromiter(map(len, ids), dtype=np.int64, count=len(ids)))
            blocks.append(np.concatenate([np.asarray(row, dtype=np.int32) for row in ids]))
        report("reading tokens", len(texts), len(texts))
        starts = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
        all_ids = np.concatenate(blocks)
        if all_ids.max(initial=0) >= self.n_known:
            raise ModelError("the tokenizer of the encoder has tokens that its network has not")
        return Tokens(all_ids, starts)


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
    rounded = -(-longest // TOKEN_STEP) * TOKEN_STEP
    return min(max(rounded, TOKEN_STEP), most)


def training_batches(
    lengths: NDArray[np.int64], batch_size: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Return all rows in random order, in batches of similar length.

    Rows are sorted by length within some batches, which are then shuffled: the padding is small,
    and batches differ from epoch to epoch.
    """
    n = len(lengths)
    order = rng.permutation(n)
    pool = np.arange(n) // (batch_size * POOLED_BATCHES)
    order = order[np.lexsort((lengths[order], pool))]
    batches = [order[start : start + batch_size] for start in range(0, n, batch_size)]
    return [batches[number] for number in rng.permutation(len(batches))]


def encoding_batches(lengths: NDArray[np.int64], most_tokens: int) -> Iterator[NDArray[np.int64]]:
    """Cut rows, sorted by length, into batches that have about ``most_tokens`` with padding."""
    order = np.argsort(lengths, kind="stable")[::-1]
    start = 0
    while start < len(order):
        n_rows = max(1, most_tokens // int(lengths[order[start]]))
        yield order[start : start + n_rows]
        start += n_rows


def padded_width(lengths: NDArray[np.int64], longest: int) -> int:
    """Return the width of a batch: that of its longest row, rounded up so that few widths occur,
    and at most ``longest``.
    """
    rounded = -(-int(lengths.max()) // TOKEN_STEP) * TOKEN_STEP
    return min(rounded, longest)
