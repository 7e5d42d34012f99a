"""Scores of the texts themselves: an encoder turns a text into a vector, and labels are scored by
the vector.

A fine-tuned encoder has one output for each label. The vectors of a frozen one are scored by a
label embedding. Both are a `LabelEmbedding` of the vectors: for one output a label its projection
changes nothing.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.engines.backend import Backend
from rembrandt.errors import DataError, ModelError
from rembrandt.linalg import Array
from rembrandt.linalg.blocks import as_numpy
from rembrandt.parts.contributions import Contributions, WordChanges
from rembrandt.parts.embedding.decoders.decoder import Decoder
from rembrandt.parts.embedding.part import LabelEmbedding, Projected
from rembrandt.parts.encoder.libraries import is_of_library
from rembrandt.parts.encoder.network import Network
from rembrandt.parts.encoder.occlusion import changes, pieces_of, texts_without
from rembrandt.parts.encoder.settings import Start
from rembrandt.parts.encoder.text_encoder import (
    GivenEncoder,
    LibraryEncoder,
    MissingEncoder,
    NetworkEncoder,
    ReferencedEncoder,
    TextEncoder,
)
from rembrandt.parts.protocol import Facts, Labels, Part, TextVectors
from rembrandt.progress import Report, silent
from rembrandt.storage.arrays import Arrays, checked, finite, positive

# Rows to encode at a time.
ENCODED_BLOCK_ROWS = 1 << 12
SCORER = "scorer."
# Of likelihoods whose log-odds are compared.
LIKELIHOOD_BOUNDS = (1e-6, 1 - 1e-6)


@dataclass(frozen=True)
class EncoderFacts:
    """What a fit found out about an encoder."""

    epochs: int = 0  # of fine-tuning at the full rate; 0 for a frozen one
    decay_epochs: int = 0  # after those, in which the rate fell to zero
    start: Start | None = None  # of the weights of the labels
    qualities: tuple[float, ...] = ()  # of each epoch on the rows that stop a fit
    losses: tuple[float, ...] = ()  # of each epoch

    def to_json(self) -> Facts:
        return {**vars(self), "qualities": list(self.qualities), "losses": list(self.losses)}

    @classmethod
    def from_json(cls, facts: Facts) -> "EncoderFacts":
        start = facts["start"]
        if start not in (None, "names", "random"):
            raise ModelError("the encoder has an unknown start")
        return cls(
            epochs=positive(facts["epochs"], int, or_zero=True),
            # Missing in models of earlier versions, which had none.
            decay_epochs=positive(facts.get("decay_epochs", 0), int, or_zero=True),
            start=start,
            qualities=tuple(finite(quality) for quality in facts["qualities"]),
            losses=tuple(finite(loss) for loss in facts["losses"]),
        )


@dataclass(frozen=True)
class EncoderPart(Part):
    """An encoder of texts, and what scores labels by its vectors."""

    encoder: TextEncoder
    scorer: LabelEmbedding
    is_tuned: bool
    fitted: EncoderFacts = field(default_factory=EncoderFacts)

    @property
    def n_labels(self) -> int:
        return self.scorer.n_labels

    @property
    def n_features(self) -> int:
        """A text counts as one feature."""
        return 1

    @property
    def reads_every_text(self) -> bool:
        return True

    @property
    def text_vectors(self) -> TextVectors | None:
        """See `Part`. A fine-tuned encoder has learned the labels of the fit, so its vectors do not
        say how similar a text is to the name of a label without examples.
        """
        if self.is_tuned:
            return None
        return self.encoder

    @property
    def block_rows(self) -> int:
        return min(self.scorer.block_rows, ENCODED_BLOCK_ROWS)

    def prepare(self, X: NDArray[np.object_]) -> Projected:
        return self.scorer.prepare(self.encoder.vectors(list(X)))

    def top(self, rows: Projected, k: int) -> tuple[Labels, Array]:
        return self.scorer.top(rows, k)

    def at(self, rows: Projected, labels: Labels) -> Array:
        return self.scorer.at(rows, labels)

    def every(self, rows: Projected) -> Array:
        return self.scorer.every(rows)

    def likelihood(self, rows: Projected, labels: Labels, scores: Array) -> Array:
        return self.scorer.likelihood(rows, labels, scores)

    def explain(self, row: NDArray[np.object_], labels: Labels) -> Contributions:
        """Return what the text as a whole adds to the likelihoods of labels; the empty text is the
        base.
        """
        wanted = np.broadcast_to(labels, (2, len(labels)))
        prepared = self.prepare(np.array(["", row[0]], dtype=object))
        scores = self.at(prepared, wanted)
        empty, full = self.likelihood(prepared, wanted, scores).astype(np.float64)
        return Contributions(empty, (full - empty)[None])

    def word_changes(self, row: NDArray[np.object_], labels: Labels) -> WordChanges | None:
        text = row[0]
        pieces = pieces_of(text)
        if not pieces:
            return None
        texts = np.array([text, *texts_without(text, pieces)], dtype=object)
        return changes(pieces, self._log_odds(texts, labels))

    def _log_odds(self, texts: NDArray[np.object_], labels: Labels) -> Array:
        """Return the log-odds that the part gives to labels (m) of texts, n × m."""
        wanted = np.broadcast_to(labels, (len(texts), len(labels)))
        prepared = self.prepare(texts)
        likelihood = self.likelihood(prepared, wanted, self.at(prepared, wanted))
        inside = np.clip(likelihood.astype(np.float64), *LIKELIHOOD_BOUNDS)
        return np.asarray(np.log(inside) - np.log1p(-inside))

    def on(self, backend: Backend) -> "EncoderPart":
        device = backend.device.split(",")[0]
        return replace(self, encoder=self.encoder.on(device), scorer=self.scorer.on(backend))

    def with_shortlist(self, size: int | bool, report: Report = silent) -> "EncoderPart":
        return replace(self, scorer=self.scorer.with_shortlist(size, report))

    def for_prediction(self) -> "EncoderPart":
        return replace(self, scorer=self.scorer.for_prediction())

    def with_encoder(self, encoder: Any) -> "EncoderPart":
        """See `Part`."""
        if not isinstance(self.encoder, MissingEncoder | GivenEncoder):
            return self
        new = GivenEncoder(self.encoder.name, encoder)
        if new.width != self.encoder.width:
            raise DataError(
                f"vectors of this encoder have {new.width:,} dimensions, and those of the fit had "
                f"{self.encoder.width:,}; give the same encoder",
                parameter="encoder",
            )
        return replace(self, encoder=new)

    def notes(self) -> list[str]:
        encoder = self.encoder
        if not isinstance(encoder, NetworkEncoder):
            return [
                f"It needs the encoder {encoder.name!r}, which is not in the folder of the model "
                "and has a licence of its own."
            ]
        licence = encoder.network.licence or "not stated"
        how = "fine-tuned" if self.is_tuned else "frozen"
        millions = encoder.network.n_weights / 1e6
        return [
            f"It has the encoder {encoder.name!r}, {how}, with {millions:,.1f} million weights; "
            f"its licence: {licence}."
        ]

    def facts(self) -> Facts:
        facts: Facts = {
            "encoder": self.encoder.name,
            "training": "fine-tune" if self.is_tuned else "frozen",
            "included": isinstance(self.encoder, NetworkEncoder),
            **self.fitted.to_json(),
        }
        if isinstance(self.encoder, NetworkEncoder):
            facts["n_weights"] = self.encoder.network.n_weights
            facts["licence"] = self.encoder.network.licence
        return facts

    def sizes(self) -> dict[str, int]:
        sizes = super().sizes()
        if isinstance(self.encoder, NetworkEncoder):
            arrays, _ = self.encoder.network.arrays()
            network = sum(array.nbytes for array in arrays.values())
            sizes = {"": sizes[""] - network, f"encoder {self.encoder.name}": network}
        return sizes

    def arrays(self) -> tuple[Arrays, Facts]:
        arrays: Arrays = {}
        facts: Facts = {
            "is_tuned": self.is_tuned,
            "fitted": self.fitted.to_json(),
            "encoder": {"name": self.encoder.name, "width": self.encoder.width},
        }
        encoder = self.encoder
        if isinstance(encoder, NetworkEncoder):
            arrays, network_facts = encoder.network.arrays()
            facts["network"] = network_facts
            facts["max_tokens"] = encoder.max_tokens
        elif isinstance(encoder, ReferencedEncoder):
            facts["encoder"]["digest"] = encoder.digest
            facts["max_tokens"] = encoder.max_tokens
        if self.is_tuned:
            decoder = self.scorer.decoder
            arrays["head.weights"] = as_numpy(decoder.weights).astype(np.float16)
            arrays["head.bias"] = as_numpy(decoder.bias).astype(np.float32)
        else:
            scorer_arrays, facts["scorer"] = self.scorer.arrays()
            arrays |= {f"{SCORER}{name}": array for name, array in scorer_arrays.items()}
        return arrays, facts

    @classmethod
    def from_arrays(cls, arrays: Arrays, facts: Facts) -> "EncoderPart":
        is_tuned = facts["is_tuned"]
        if not isinstance(is_tuned, bool):
            raise ModelError("the encoder is neither fine-tuned nor frozen")
        encoder = _read_encoder(arrays, facts, is_tuned)
        if is_tuned:
            weights = checked("head.weights", arrays, (encoder.width, None), smallest=2)
            bias = checked("head.bias", arrays, weights.shape[1:])
            scorer = head_scorer(weights.astype(np.float32), np.asarray(bias, dtype=np.float32))
        else:
            prefix = len(SCORER)
            scorer_arrays = {
                name[prefix:]: array for name, array in arrays.items() if name.startswith(SCORER)
            }
            scorer = LabelEmbedding.from_arrays(scorer_arrays, facts["scorer"])
        if scorer.n_features != encoder.width:
            raise ModelError("the encoder and what scores its vectors do not fit together")
        return cls(encoder, scorer, is_tuned, EncoderFacts.from_json(facts["fitted"]))


def head_scorer(weights: NDArray[np.float32], bias: NDArray[np.float32]) -> LabelEmbedding:
    """Return what scores labels by one output each: weights (k × c) and bias (c)."""
    width = len(weights)
    nothing = np.zeros((1, width), dtype=np.float32)
    return LabelEmbedding(
        projection=np.vstack([np.eye(width, dtype=np.float32), nothing]),
        decoder=Decoder(weights, bias, "sigmoid"),
        vectors=np.ascontiguousarray(weights.T),
        singular_values=np.ones(width, dtype=np.float32),
    )


def tuned_part(
    network: Network,
    max_tokens: int,
    head_weights: NDArray[np.float32],
    head_bias: NDArray[np.float32],
    fitted: EncoderFacts,
) -> EncoderPart:
    """Return a fine-tuned encoder. What is saved is in half precision, and so is what predicts."""
    rounded = np.ascontiguousarray(head_weights.T.astype(np.float16).astype(np.float32))
    encoder = NetworkEncoder(network, max_tokens, unit_length=False)
    return EncoderPart(encoder, head_scorer(rounded, head_bias), True, fitted)


def _read_encoder(arrays: Arrays, facts: Facts, is_tuned: bool) -> TextEncoder:
    """Return the encoder of a saved part: its network, a reference, or a name."""
    description = facts["encoder"]
    name = str(description["name"])
    if "network" in facts:
        network = Network.from_arrays(arrays, facts["network"])
        max_tokens = positive(facts["max_tokens"], int)
        if max_tokens > network.max_tokens:
            raise ModelError("the encoder has fewer positions than tokens")
        return NetworkEncoder(network, max_tokens, unit_length=not is_tuned)
    if is_tuned:
        raise ModelError("the weights of the fine-tuned encoder are missing")
    width = positive(description["width"], int)
    if is_of_library(name):
        return LibraryEncoder(name, width)
    if "digest" in description:
        max_tokens = positive(facts["max_tokens"], int)
        return ReferencedEncoder(name, str(description["digest"]), width, max_tokens)
    return MissingEncoder(name, width)
