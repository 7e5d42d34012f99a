"""A fit on two devices that is killed and resumed gives the same model."""

import pytest

from benchmarks import survive


@pytest.mark.slow
def test_a_killed_fit_on_two_devices(monkeypatch, tmp_path):
    pytest.importorskip("torch")
    options = survive.FITS["logistic"].replace("--n-random-features 500", "--n-random-features 50")
    monkeypatch.setattr(survive, "FITS", {"logistic": options})
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    result = survive.main(kills=1, examples=200, folder=str(tmp_path), device="cpu,cpu")
    assert result["same"] == result["of"] == 1
