"""Label centroids as a kind of part."""

from typing import ClassVar

from rembrandt.data.examples import Examples
from rembrandt.memory import Shape
from rembrandt.parts.allowance import Allowance, Work
from rembrandt.parts.centroids.fit import N_ENTRIES, LabelSums, label_sums
from rembrandt.parts.centroids.part import Centroids
from rembrandt.parts.centroids.settings import PRESETS, CentroidSettings
from rembrandt.parts.protocol import Choice, Fitting, Part, PartKind, Update, Updated


class CentroidsKind(PartKind):
    """Label centroids; see `rembrandt.parts.centroids.part`."""

    name = "centroids"
    title = "centroids"
    settings_type = CentroidSettings
    part_type = Centroids
    presets: ClassVar = PRESETS

    def resolve(
        self, settings: CentroidSettings, data: Examples, allowance: Allowance, is_alone: bool
    ) -> CentroidSettings:
        return settings

    def work(self, settings: CentroidSettings, data: Examples) -> Work:
        """See `PartKind`. Each entry of an example is added to the sums of its labels."""
        return Work(sparse=data.X.nnz * data.Y.nnz / data.n)

    def shape(self, shape: Shape, settings: CentroidSettings, data: Examples) -> Shape:
        # The sums are bounded, and small next to the data.
        return shape

    def fit(self, data: Examples, settings: CentroidSettings, fitting: Fitting) -> Centroids:
        def compute() -> Centroids:
            sums = label_sums(data.X, data.Y, data.weights, fitting.report)
            directions = LabelSums.of(sums, N_ENTRIES)
            return Centroids(directions.centroids, directions.lengths)

        return fitting.checkpoints.stage(
            "centroids", compute, Centroids.arrays, Centroids.from_arrays
        )

    def update(self, part: Centroids, update: Update) -> Updated:
        before = LabelSums(part.centroids, part.lengths)
        examples = update.examples
        after = before.with_examples(examples.X, examples.Y, examples.weights)
        return Updated(Centroids(after.centroids, after.lengths), [])

    def choices(self, settings: CentroidSettings, data: Examples) -> list[Choice]:
        return []

    def words(self, settings: CentroidSettings, part: Part | None = None) -> str:
        return ""
