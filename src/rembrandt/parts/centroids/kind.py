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
        labels_per_row = data.Y.nnz / data.n
        return Work(sparse=data.X.nnz * labels_per_row)

    def shape(self, shape: Shape, settings: CentroidSettings, data: Examples) -> Shape:
        # The sums are bounded, and small next to the data.
        return shape

    def fit(self, data: Examples, settings: CentroidSettings, fitting: Fitting) -> Centroids:
        saved = fitting.checkpoints.load("centroids", Centroids.from_arrays)
        if saved is not None:
            return saved
        sums = label_sums(
            data.X,
            data.Y,
            data.weights,
            fitting.report,
        )
        directions = LabelSums.of(sums, N_ENTRIES)
        part = Centroids(directions.centroids, directions.lengths)
        fitting.checkpoints.save("centroids", part.arrays)
        return part

    def update(self, part: Centroids, update: Update) -> Updated:
        before = LabelSums(part.centroids, part.lengths)
        examples = update.examples
        after = before.with_examples(
            examples.X,
            examples.Y,
            examples.weights,
        )
        centroids = Centroids(after.centroids, after.lengths)
        return Updated(centroids, [])

    def choices(self, settings: CentroidSettings, data: Examples) -> list[Choice]:
        return []

    def words(self, settings: CentroidSettings, part: Part | None = None) -> str:
        return ""
