"""The kinds of parts, in the order in which they are fitted."""

from rembrandt.parts.centroids.kind import CentroidsKind
from rembrandt.parts.embedding.kind import EmbeddingKind
from rembrandt.parts.encoder.kind import EncoderKind
from rembrandt.parts.names.kind import NamesKind
from rembrandt.parts.protocol import PartKind
from rembrandt.parts.trees.kind import TreesKind

KINDS: dict[str, PartKind] = {
    kind.name: kind
    for kind in (TreesKind(), CentroidsKind(), EmbeddingKind(), EncoderKind(), NamesKind())
}
