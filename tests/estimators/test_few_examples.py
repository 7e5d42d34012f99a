"""Examples with hardly any features or labels are fitted, or refused in words."""

import numpy as np
import pytest
from scipy import sparse

from rembrandt import RembrandtClassifier
from rembrandt.__main__ import main
from rembrandt.errors import DataError

N_ROWS = 60
LABELS = np.array([f"l{i % 3}" for i in range(N_ROWS)])
TEXTS = [f"word{i % 7} word{i % 5} word{i % 3}" for i in range(N_ROWS)]


def features(n_used):
    """Rows of which only the first few have a feature at all."""
    X = np.zeros((N_ROWS, 8), dtype=np.float32)
    X[np.arange(n_used), np.arange(n_used) % 8] = 1
    return X


def answers(model, X):
    """Return probabilities after checking them."""
    probabilities = model.predict_proba(X)
    assert np.isfinite(probabilities).all()
    assert ((probabilities >= 0) & (probabilities <= 1)).all()
    return probabilities


@pytest.mark.parametrize("preset", ["fast", "balanced"])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("n_used", [0, 1, 2])
def test_rows_with_hardly_any_features(preset, convert, n_used):
    model = RembrandtClassifier(preset=preset, random_state=0)
    X = convert(features(n_used))
    try:
        model.fit(X, LABELS)
    except DataError as error:
        assert n_used == 0
        assert "feature" in str(error) or "zero" in str(error)
    else:
        answers(model, X)


@pytest.mark.parametrize("preset", ["fast", "balanced"])
@pytest.mark.parametrize("n_labelled", [1, 2])
def test_hardly_any_row_has_a_label(preset, n_labelled):
    labels = [["a"] if i < n_labelled else [] for i in range(N_ROWS)]
    model = RembrandtClassifier(preset=preset, random_state=0).fit(TEXTS, labels)
    assert answers(model, TEXTS).shape == (N_ROWS, 1)


@pytest.mark.parametrize("preset", ["fast", "balanced"])
def test_one_row_has_a_weight(preset):
    weights = np.zeros(N_ROWS)
    weights[7] = 1
    model = RembrandtClassifier(preset=preset, random_state=0)
    model.fit(TEXTS, LABELS, sample_weight=weights)
    assert model.predict([TEXTS[7]]) == [LABELS[7]]


@pytest.mark.parametrize("parts", [("embedding",), ("trees",), ("centroids",)])
def test_two_rows(parts):
    model = RembrandtClassifier(parts=parts, random_state=0)
    model.fit(np.eye(2), ["a", "b"])
    answers(model, np.array([[1, 0], [0, 0], [-2, 3]]))


@pytest.mark.parametrize(
    "lines",
    [
        ["text\tlabel", *["\ta", "\tb"] * 20],
        ["text\tlabel", *[f"{i}\ta" for i in range(40)]],
        ["text\tlabel", "one row\ta", *[f"row {i}\t" for i in range(40)]],
    ],
    ids=["empty texts", "one label", "one labelled row"],
)
def test_the_command_line_has_no_traceback(tmp_path, capsys, lines):
    table = tmp_path / "train.tsv"
    table.write_text("\n".join(lines) + "\n")
    arguments = ["fit", str(table), "--text", "text", "--labels", "label", "--preset", "fast"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--output", str(tmp_path / "model"), "--quiet"])
    errors = capsys.readouterr().err
    assert "Traceback" not in errors
    if ended.value.code:
        assert errors.startswith("error: ")
    else:
        assert (tmp_path / "model" / "model.json").is_file()
