"""The transpose decoder: back through the basis."""

from numpy.testing import assert_allclose

from rembrandt.parts.embedding.decoders.transpose import fit_transpose

from .contract import DecoderContract


class TestTranspose(DecoderContract):
    def fit(self, H, Y, places):
        return fit_transpose(places)

    def test_scores_are_the_product_with_the_basis(self, train):
        H, _, places = train
        assert_allclose(self.fit(*train).scores(H), H @ places.T, rtol=1e-6, atol=1e-6)

    def test_the_basis_given_is_not_shared(self, train):
        _, _, places = train
        decoder = self.fit(*train)
        decoder.weights[:] = 0
        assert places.any()
