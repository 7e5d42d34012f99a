"""The moments of mapped rows and their labels: all that a ridge regression needs, at any
strength.
"""

from dataclasses import dataclass, replace

from array_api_compat import array_namespace

from rembrandt.features.fourier import FourierMap
from rembrandt.linalg.blocks import Block, converted, spans
from rembrandt.linalg.ridge import CholeskyRidge

# Labels solved for at a time: bounds the blocks in float64.
LABEL_BLOCK = 4096
# Smallest relative strength, and smallest penalty: a factor needs some ridge.
SMALLEST_STRENGTH = 1e-10
SMALLEST_PENALTY = 1e-300


@dataclass(frozen=True)
class RidgeStatistics:
    """Moments of ``Φ = φ(H)`` and Y, centred on both sides: the intercept is free.

    The Gram matrix is accumulated in float64: in float32 that of random features is not positive
    definite.
    """

    total: float  # number of rows, or their weight
    mean: Block  # of Φ, in float64
    gram: Block  # ΦᵀΦ, D × D, in float64
    label_mean: Block
    cross: Block  # YᵀΦ, c × D
    fourier: FourierMap | None = None

    @classmethod
    def of_sums(
        cls,
        total: float,
        sums: Block,
        gram: Block,
        label_sums: Block,
        cross: Block,
        fourier: FourierMap | None,
    ) -> "RidgeStatistics":
        """Centre plain sums; ``gram`` and ``cross`` are overwritten."""
        xp = array_namespace(gram)
        mean = sums / total
        label_mean = label_sums / total
        gram -= total * mean[:, None] * mean
        for labels in spans(cross.shape[0], LABEL_BLOCK):
            product_of_means = total * label_mean[labels, None] * mean
            cross[labels] -= xp.astype(product_of_means, cross.dtype)
        return cls(total, mean, gram, label_mean, cross, fourier)

    def with_unlabelled_rows(self, total: float, mean: Block, gram: Block) -> "RidgeStatistics":
        """Add rows that have none of these labels, by their weight, mean and centred Gram
        matrix.
        """
        xp = array_namespace(self.cross)
        joint_total = self.total + total
        difference = mean - self.mean
        joint_mean = self.mean + (total / joint_total) * difference
        between = (self.total * total / joint_total) * difference[:, None] * difference
        shift = self.total * self.label_mean[:, None] * (self.mean - joint_mean)
        return replace(
            self,
            total=joint_total,
            mean=joint_mean,
            gram=self.gram + gram + between,
            label_mean=self.label_mean * (self.total / joint_total),
            cross=self.cross + xp.astype(shift, self.cross.dtype),
        )

    def of_projection(self, k: int) -> "RidgeStatistics":
        """Return the statistics of ``H`` itself, which is the last ``k`` features of a map,
        scaled.
        """
        if self.fourier is None or self.fourier.linear == 0:
            return self
        scale = 1 / self.fourier.linear
        return replace(
            self,
            mean=scale * self.mean[-k:],
            gram=scale**2 * self.gram[-k:, -k:],
            cross=scale * self.cross[:, -k:],
            fourier=None,
        )

    def of_labels(self, labels: Block) -> "RidgeStatistics":
        """Select labels by a mask."""
        return replace(self, label_mean=self.label_mean[labels], cross=self.cross[labels])

    def factor(self, strength: float) -> CholeskyRidge:
        """Factor ``ΦᵀΦ + λI``."""
        return CholeskyRidge(self.gram, penalty(strength, self.gram, self.total))

    def solve(self, strength: float, factor: CholeskyRidge | None = None) -> tuple[Block, Block]:
        """Return the weights (D × c) and biases of every label at ``strength``."""
        xp = array_namespace(self.gram)
        c, D = self.cross.shape
        dtype = self.cross.dtype
        device = self.cross.device
        if factor is None:
            factor = self.factor(strength)
        weights = xp.empty((D, c), dtype=dtype, device=device)
        bias = xp.empty((c,), dtype=dtype, device=device)
        for labels in spans(c, LABEL_BLOCK):
            cross = converted(self.cross[labels].T, xp.float64)
            converted(factor.solve(cross), dtype, out=weights[:, labels])
            # From the rounded weights, so that the mean row still gets the mean label.
            at_mean = self.mean @ converted(weights[:, labels], xp.float64)
            bias[labels] = xp.astype(self.label_mean[labels] - at_mean, dtype)
        return weights, bias


def penalty(strength: float, gram: Block, total: float) -> float:
    """λ for a ``strength`` relative to the mean squared length of a mapped, centred row.

    In that unit a strength means the same for any number of random features. Of D features the
    average one has the weight of n/D such lengths: a strength far below n/D leaves a linear
    decoder, where D is the rank, as it is.
    """
    xp = array_namespace(gram)
    trace = float(xp.linalg.trace(gram))
    strength = max(strength, SMALLEST_STRENGTH)
    return max(strength * trace / total, SMALLEST_PENALTY)
