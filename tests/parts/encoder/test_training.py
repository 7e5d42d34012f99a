"""Fine-tuning: it can be resumed, repeated, and estimated."""

import gc
import weakref
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from rembrandt.errors import MemoryEstimateError, RembrandtError, StorageError
from rembrandt.parts.encoder import fit
from rembrandt.parts.encoder.fit import LOG_ODDS_WITHOUT_EXAMPLES, fit_encoder, network_of
from rembrandt.parts.encoder.head import names_of_labels, starting_head
from rembrandt.parts.encoder.memory import training_bytes
from rembrandt.parts.encoder.settings import EncoderSettings
from rembrandt.parts.encoder.tokens import (
    Tokenizer,
    Tokens,
    encoding_batches,
    training_batches,
    usual_tokens,
)
from rembrandt.parts.protocol import Fitting
from rembrandt.storage.checkpoints import checkpoints_in
from tests.encoders import texts_of_rows, word_encoder
from tests.estimators.problems import examples
from tests.parts.contract import problem

torch = pytest.importorskip("torch", reason="training needs torch")
training = pytest.importorskip("rembrandt.parts.encoder.training")
RunningNetwork = pytest.importorskip("rembrandt.parts.encoder.running").RunningNetwork

CPU = torch.device("cpu")
GPU = pytest.param(
    torch.device("cuda", 0),
    id="gpu",
    marks=pytest.mark.skipif(
        not torch.cuda.is_available(), reason="no GPU here: torch finds no CUDA device"
    ),
)
RECIPE = training.Recipe(
    max_epochs=3,
    batch_size=32,
    network_rate=2e-3,
    head_rate=2e-2,
    seed=0,
)


@pytest.fixture(scope="module")
def network():
    return network_of(word_encoder())


def rows_of(network, seed=0, n=90, weights=None):
    X, Y = problem(seed, n)
    tokens = Tokenizer.of(network).tokens(texts_of_rows(X).tolist(), 16)
    return training.TrainingRows(tokens, Y, weights)


@pytest.fixture(scope="module")
def head(network):
    data = examples(*problem(n=90))
    return starting_head(data, None, "random", network.width, lambda texts: None, seed=0)


def assert_equal(first, second):
    for name, array in first.weights.items():
        assert_array_equal(array, second.weights[name], err_msg=name)
    assert_array_equal(first.head_weights, second.head_weights)
    assert_array_equal(first.head_bias, second.head_bias)
    assert first.losses == second.losses
    assert first.qualities == second.qualities
    assert first.epochs == second.epochs


@pytest.mark.parametrize("killed_at", [2, 4])
def test_a_resumed_fit_gives_the_same_bits(network, head, tmp_path, monkeypatch, killed_at):
    rows = rows_of(network)
    stopping = rows_of(network, seed=1)
    recipe = replace(RECIPE, decay_epochs=2)
    expected = training.fine_tune(network, head, rows, recipe, CPU, stopping)

    def killed(run):
        if run.epoch == killed_at:
            raise KeyboardInterrupt
        return train_epoch(run)

    train_epoch = training._Run.train_epoch
    with checkpoints_in(tmp_path, overhead=1e9) as checkpoints:
        checkpoints.begin({"fit": 1})
        monkeypatch.setattr(training._Run, "train_epoch", killed)
        with pytest.raises(KeyboardInterrupt):
            training.fine_tune(network, head, rows, recipe, CPU, stopping, checkpoints=checkpoints)
    monkeypatch.setattr(training._Run, "train_epoch", train_epoch)
    with checkpoints_in(tmp_path) as checkpoints:
        checkpoints.begin({"fit": 1})
        kept = checkpoints.last(training.EPOCH_STAGE)
        assert kept is not None
        assert kept[1]["epoch"] == killed_at
        again = training.fine_tune(
            network, head, rows, recipe, CPU, stopping, checkpoints=checkpoints
        )
    assert_equal(again, expected)


def test_what_a_fit_holds_is_freed_at_its_end(network, head, monkeypatch):
    runs = []

    def noted(run, *rest):
        runs.append(weakref.ref(run))
        return trained(run, *rest)

    trained = training._trained
    monkeypatch.setattr(training, "_trained", noted)
    gc.collect()
    gc.disable()
    try:
        training.fine_tune(network, head, rows_of(network), RECIPE, CPU)
        assert runs[0]() is None, "without a garbage collection"
    finally:
        gc.enable()


def test_another_checkpoint_is_refused(network, head, tmp_path):
    with checkpoints_in(tmp_path, overhead=1e9) as checkpoints:
        checkpoints.begin({"fit": 1})
        checkpoints.step(training.EPOCH_STAGE, 1, lambda: {"a": np.zeros(3)}, {"epoch": 1})
        with pytest.raises(StorageError, match="checkpoint of the encoder cannot be used"):
            training.fine_tune(
                network, head, rows_of(network), RECIPE, CPU, checkpoints=checkpoints
            )


def test_random_numbers_of_others_are_left_alone(network, head):
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    recipe = replace(RECIPE, max_epochs=1)
    first = training.fine_tune(network, head, rows_of(network), recipe, CPU)
    assert_array_equal(torch.rand(4), expected)
    assert_equal(training.fine_tune(network, head, rows_of(network), recipe, CPU), first)


def test_the_loss_is_the_cross_entropy_of_all_labels():
    _, Y = problem(n=20)
    rng = np.random.default_rng(0)
    logits = torch.from_numpy(rng.standard_normal((6, Y.shape[1])).astype(np.float32))
    rows = np.array([3, 1, 19, 0, 7, 7])
    labels = training._DeviceLabels(Y, CPU)
    losses = labels.losses(logits, torch.from_numpy(rows), labels.width(rows))
    target = torch.from_numpy(Y[rows].toarray())
    expected = torch.nn.functional.binary_cross_entropy_with_logits(
        logits, target, reduction="none"
    ).sum(dim=1)
    assert_allclose(losses, expected, rtol=1e-5)


def test_a_fit_that_diverges_says_so(network, head):
    recipe = replace(RECIPE, network_rate=1e30, head_rate=1e30)
    with pytest.raises(RembrandtError, match=r"diverged.*smaller learning_rate"):
        training.fine_tune(network, head, rows_of(network), recipe, CPU)


def test_batches_have_every_row_once_and_similar_lengths():
    lengths = np.random.default_rng(0).integers(1, 100, 1000)
    batches = training_batches(lengths, 16, np.random.default_rng(0))
    assert sorted(np.concatenate(batches).tolist()) == list(range(1000))
    assert max(len(batch) for batch in batches) == 16
    padding = sum(lengths[batch].max() * len(batch) for batch in batches) / lengths.sum()
    assert padding < 1.1


def test_batches_to_encode_have_every_row_once_within_a_number_of_tokens():
    lengths = np.random.default_rng(0).integers(1, 100, 1000)
    lengths[[3, 500]] = 900
    batches = list(encoding_batches(lengths, 400))
    assert sorted(np.concatenate(batches).tolist()) == list(range(1000))
    for batch, following in pairwise(batches):
        longest = lengths[batch].max()
        assert len(batch) == max(1, 400 // longest)
        assert lengths[batch].min() >= lengths[following].max()
    assert [len(batch) for batch in encoding_batches(np.full(8, 10), 40)] == [4, 4]


def test_tokens_of_long_texts_are_cut(network):
    tokenizer = Tokenizer.of(network)
    texts = ["w1 w2 w3 w4 w5", "w1", ""]
    tokens = tokenizer.tokens(texts, 20)
    assert tokens.lengths.tolist() == [7, 3, 2]
    cut = tokens.cut(4)
    expected = tokenizer.tokens(texts, 4)
    assert_array_equal(cut.ids, expected.ids)
    assert_array_equal(cut.starts, expected.starts)
    assert usual_tokens(np.array([3] * 99 + [50]), 64) == 8
    assert usual_tokens(np.array([50]), 32) == 32
    assert isinstance(tokens, Tokens)


def test_labels_that_are_words_are_their_own_names():
    data = examples(*problem(n=90))
    words = np.array(["food-safety", "sauce", "x86_64", "a:linux:linux_kernel"])
    few = replace(data, classes=words, Y=data.Y[:, :4])
    assert names_of_labels(few)[0] == "food safety"
    assert names_of_labels(few)[3] == "a linux linux kernel"
    numbers = replace(few, classes=np.array(["D001", "A00", "T1003", "C12"]))
    assert names_of_labels(numbers) is None
    named = replace(numbers, label_names=["Calcimycin", "", "Dumping", "Tumours"])
    assert names_of_labels(named) == ["Calcimycin", "", "Dumping", "Tumours"]


@pytest.mark.parametrize("start", ["names", "random"])
def test_weights_of_labels_start_in_both_ways(network, start):
    X, Y = problem(n=200)
    data = replace(examples(X, Y), texts=texts_of_rows(X))
    rng = np.random.default_rng(0)
    vectors = {}

    def encode(texts):
        for text in texts:
            vectors.setdefault(text, rng.standard_normal(network.width).astype(np.float32))
        return np.stack([vectors[text] for text in texts])

    names = [f"label {number}" if number != 5 else "" for number in range(Y.shape[1])]
    head = starting_head(data, names, start, network.width, encode, seed=0)
    assert head.start == start
    assert head.weights.shape == (Y.shape[1], network.width)
    assert np.isfinite(head.weights).all()
    assert np.isfinite(head.bias).all()
    if start == "names":
        assert not head.weights[5].any()
        assert_allclose(head.weights.sum(axis=0), 0, atol=1e-4)


def test_memory_grows_with_what_it_depends_on(network):
    least = training_bytes(network, 100, 8, 16, is_mixed=True)
    assert 0 < least < training_bytes(network, 100, 8, 16, is_mixed=False)
    for more in ((200, 8, 16), (100, 16, 16), (100, 8, 32)):
        assert training_bytes(network, *more, is_mixed=True) > least


def test_labels_without_training_rows_do_not_say_when_to_stop(monkeypatch):
    """Held-out rows have labels that no other row has: the fit is the same without them."""
    monkeypatch.setattr(fit, "MOST_EPOCHS", 3)
    X, Y = problem(0, 90)
    new_X, new_Y = problem(1, 60)
    unseen = np.arange(0, Y.shape[1], 3)
    is_seen = np.ones(Y.shape[1], dtype=Y.dtype)
    is_seen[unseen] = 0
    seen_Y = sparse.csr_array(Y * is_seen)
    seen_Y.eliminate_zeros()
    seen_new_Y = sparse.csr_array(new_Y * is_seen)
    seen_new_Y.eliminate_zeros()
    assert seen_new_Y.nnz < 0.9 * new_Y.nnz
    # Each label has a word of the texts as its name, by which the encoder would find it at once.
    names = [f"w{label}" for label in range(Y.shape[1])]
    data = replace(examples(X, seen_Y), texts=texts_of_rows(X), label_names=names)
    settings = EncoderSettings(
        word_encoder(), training="fine-tune", start="names", batch_size=32, learning_rate=2e-3
    ).with_defaults()
    parts = []
    for stopping_Y in (new_Y, seen_new_Y):
        stopping = replace(examples(new_X, stopping_Y), texts=texts_of_rows(new_X))
        parts.append(fit_encoder(data, settings, Fitting(stopping=stopping)))
    first, second = parts
    assert len(first.fitted.qualities) == 4  # of three epochs, and of the decay after them
    assert first.fitted == second.fitted
    for name, array in first.arrays()[0].items():
        assert_array_equal(array, second.arrays()[0][name], err_msg=name)
    assert_array_equal(first.scorer.decoder.bias[unseen], LOG_ODDS_WITHOUT_EXAMPLES)
    assert not first.scorer.decoder.weights[:, unseen].any()


def test_a_device_without_memory_says_what_to_do(network, head, monkeypatch):
    def out_of_memory(run):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(training._Run, "train_epoch", out_of_memory)
    with pytest.raises(MemoryEstimateError, match="a smaller batch_size"):
        training.fine_tune(network, head, rows_of(network), RECIPE, CPU)


def test_training_in_mixed_precision_is_nearly_that_in_single_precision(network, head, monkeypatch):
    """What a GPU does, on the CPU: products in bfloat16, and everything else as it is."""
    rows = rows_of(network)
    stopping = rows_of(network, seed=1)
    expected = training.fine_tune(network, head, rows, RECIPE, CPU, stopping)
    monkeypatch.setattr(
        training._Run, "_autocast", lambda run: torch.autocast("cpu", dtype=torch.bfloat16)
    )
    mixed = training.fine_tune(network, head, rows, RECIPE, CPU, stopping)
    assert mixed.losses != expected.losses
    assert_allclose(mixed.losses, expected.losses, rtol=0.02)
    assert_allclose(mixed.qualities, expected.qualities, atol=0.1)


@pytest.mark.parametrize("device", [GPU])
def test_a_gpu_trains_as_the_cpu_does(network, head, device):
    rows = rows_of(network)
    stopping = rows_of(network, seed=1)
    expected = training.fine_tune(network, head, rows, RECIPE, CPU, stopping)
    on_device = training.fine_tune(network, head, rows, RECIPE, device, stopping)
    # Dropped dimensions are others.
    assert_allclose(on_device.losses, expected.losses, rtol=0.05)
    assert_allclose(on_device.qualities, expected.qualities, atol=0.15)


def rates_of(monkeypatch, network, head, recipe, stopping=None):
    rates = []

    def noted(run):
        share = rate(run)
        rates.append(share)
        return share

    rate = training._Run._rate
    monkeypatch.setattr(training._Run, "_rate", noted)
    tuned = training.fine_tune(network, head, rows_of(network), recipe, CPU, stopping)
    return np.array(rates).reshape(len(tuned.losses), -1), tuned


def test_the_rate_falls_to_zero_after_the_epochs_at_the_full_rate(network, head, monkeypatch):
    recipe = replace(RECIPE, decay_epochs=2)
    rates, tuned = rates_of(monkeypatch, network, head, recipe)
    assert (tuned.epochs, tuned.decay_epochs) == (3, 2)
    assert_array_equal(rates[1:3], 1)
    decay = rates[3:].ravel()
    assert_allclose(decay, 1 - np.arange(len(decay)) / len(decay))


@pytest.mark.parametrize(("batch_size", "n_rising"), [(9, 5), (90, 1)])
def test_the_rate_rises_in_the_first_half_epoch_or_is_full_at_once(
    network, head, monkeypatch, batch_size, n_rising
):
    recipe = replace(RECIPE, batch_size=batch_size, max_epochs=1)
    rates, _ = rates_of(monkeypatch, network, head, recipe)
    expected = np.minimum(np.arange(1, rates.size + 1) / n_rising, 1)
    assert_allclose(rates.ravel(), expected)


@pytest.mark.parametrize("decay_helps", [True, False])
def test_a_decay_is_kept_if_it_is_better(network, head, monkeypatch, decay_helps):
    recipe = replace(RECIPE, decay_epochs=None)
    stopping = rows_of(network, seed=1)
    qualities = iter([0.5, 0.5, 0.5, 0.6 if decay_helps else 0.4])
    monkeypatch.setattr(training, "hits", lambda Y, labels: np.zeros(labels.shape))
    monkeypatch.setattr(training, "ndcg", lambda hit, *_: np.full(len(hit), 2 * next(qualities)))
    rates, tuned = rates_of(monkeypatch, network, head, recipe, stopping)
    assert len(tuned.losses) == 5  # three epochs at the full rate, and a decay of two
    assert len(tuned.qualities) == 4
    assert rates[-1].max() < 1
    assert (tuned.epochs, tuned.decay_epochs) == ((3, 2) if decay_helps else (1, 0))


class Replayed:
    """What a graph of recorded kernels does, on the CPU."""

    def __init__(self, compute, rows, shape):
        self.replay = lambda: compute(rows, shape)


def test_steps_that_are_recorded_are_those_that_are_computed(network, head, monkeypatch):
    recorded = []

    class OnTheCpu(training.RecordedSteps):
        def _recorded(self, shape):
            recorded.append(shape)
            return Replayed(self._compute, self._rows, shape)

    rows = rows_of(network)
    expected = training.fine_tune(network, head, rows, RECIPE, CPU)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None, raising=False)
    monkeypatch.setattr(training, "Steps", lambda compute: OnTheCpu(compute, 32, CPU))
    assert_equal(training.fine_tune(network, head, rows, RECIPE, CPU), expected)
    assert recorded
    assert len(recorded) == len(set(recorded))


@pytest.mark.parametrize("device", [GPU])
def test_a_gpu_replays_the_steps_that_it_would_compute(network, head, monkeypatch, device):
    rows = rows_of(network)
    replayed = training.fine_tune(network, head, rows, RECIPE, device)
    monkeypatch.setattr(training, "RecordedSteps", lambda compute, *_: training.Steps(compute))
    computed = training.fine_tune(network, head, rows, RECIPE, device)
    assert_allclose(replayed.losses, computed.losses, rtol=1e-2)
    assert_allclose(replayed.head_weights, computed.head_weights, atol=2e-2)


@pytest.mark.parametrize("device", [GPU])
def test_a_fit_on_a_gpu_is_resumed(network, head, tmp_path, monkeypatch, device):
    rows = rows_of(network)
    expected = training.fine_tune(network, head, rows, RECIPE, device)
    train_epoch = training._Run.train_epoch

    def killed(run):
        if run.epoch == 2:
            raise KeyboardInterrupt
        return train_epoch(run)

    with checkpoints_in(tmp_path, overhead=1e9) as checkpoints:
        checkpoints.begin({"fit": 1})
        monkeypatch.setattr(training._Run, "train_epoch", killed)
        with pytest.raises(KeyboardInterrupt):
            training.fine_tune(network, head, rows, RECIPE, device, checkpoints=checkpoints)
        monkeypatch.setattr(training._Run, "train_epoch", train_epoch)
        again = training.fine_tune(network, head, rows, RECIPE, device, checkpoints=checkpoints)
    assert again.epochs == expected.epochs
    # As far as the device repeats its own sums.
    assert_allclose(again.losses, expected.losses, rtol=1e-3)
    assert_allclose(again.head_weights, expected.head_weights, atol=1e-2)


@pytest.mark.parametrize("device", [GPU])
def test_a_gpu_gives_the_vectors_of_the_cpu(network, device):
    texts = texts_of_rows(problem(0, 40)[0]).tolist()
    expected = RunningNetwork(network, "cpu").encode(texts, 16)
    assert_allclose(RunningNetwork(network, str(device)).encode(texts, 16), expected, atol=1e-4)
