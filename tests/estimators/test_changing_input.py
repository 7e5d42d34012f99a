"""Input that changes while it is read, and processes that fork after threads were used."""

import multiprocessing
import os
import threading
import warnings

import joblib
import pytest
from numpy.testing import assert_array_equal

from rembrandt import RembrandtClassifier
from rembrandt.errors import DataError
from rembrandt.linalg import threads

TEXTS = [f"word{i % 20} other{i % 7} more{i % 3}" for i in range(60)]
LABELS = [f"l{i % 4}" for i in range(60)]
SECONDS = 60  # after which a process counts as stuck


class Growing(list):
    """Has another text each time it was read."""

    def __iter__(self):
        values = list(super().__iter__())
        self.append(self[0])
        return iter(values)


class Shrinking(list):
    """Loses texts while it is read."""

    def __iter__(self):
        for value in super().__iter__():
            if len(self) > 30:
                self.pop()
            yield value


class Lying(list):
    def __len__(self):
        return 5


class Changed(list):
    """Fails as a dictionary that another thread changes does."""

    def __iter__(self):
        raise RuntimeError("dictionary changed size during iteration")


def classifier():
    return RembrandtClassifier(random_state=0, preset="fast", parts=("trees", "centroids"))


@pytest.fixture(scope="module")
def fitted():
    return classifier().fit(TEXTS, LABELS)


@pytest.mark.parametrize("kind", [Growing, Lying, tuple])
def test_examples_are_read_once(fitted, kind):
    texts = [f"{text} number{i}" for i, text in enumerate(TEXTS)]
    labels, scores = fitted.predict_topk(kind(texts), k=3)
    expected = fitted.predict_topk(texts, k=3)
    assert_array_equal(labels, expected[0])
    assert_array_equal(scores, expected[1])
    assert len(fitted.explain(kind(texts[:3]), k=1)) == 3
    again = classifier().fit(kind(texts), LABELS)
    assert_array_equal(again.predict(texts), classifier().fit(texts, LABELS).predict(texts))


def test_labels_are_read_once(fitted):
    for kind in (Growing, Lying, tuple):
        again = classifier().fit(TEXTS, kind(LABELS))
        assert_array_equal(again.predict(TEXTS), fitted.predict(TEXTS))


def test_what_cannot_be_read_is_refused(fitted):
    with pytest.raises(DataError, match="X has 30 rows and y has 60"):
        classifier().fit(Shrinking(TEXTS), LABELS)
    for use in (fitted.predict, fitted.explain, lambda X: classifier().fit(X, LABELS)):
        with pytest.raises(DataError, match=r"X was changed while .*give a copy, as in list\(X\)"):
            use(Changed(TEXTS))
    with pytest.raises(DataError, match="y was changed while it was read"):
        classifier().fit(TEXTS, Changed(LABELS))


@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_generators_and_frames_that_change(fitted):
    """Such rows are refused, or answered as those of one moment."""
    with pytest.raises(DataError, match="X"):
        fitted.predict(text for text in TEXTS)
    with pytest.raises(DataError, match="y"):
        classifier().fit(TEXTS, (label for label in LABELS))
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": TEXTS, "label": LABELS})

    class Dropping(pandas.Series):
        """Loses its last text whenever its values are asked for."""

        def __array__(self, *arguments, **options):
            values = super().__array__(*arguments, **options)
            self.drop(self.index[-1], inplace=True)
            return values

        def __iter__(self):
            values = list(super().__iter__())
            self.drop(self.index[-1], inplace=True)
            return iter(values)

    labels, _ = fitted.predict_topk(Dropping(frame["text"]), k=2)
    assert 0 < len(labels) <= len(TEXTS)
    expected, _ = fitted.predict_topk(TEXTS[: len(labels)], k=2)
    assert_array_equal(labels, expected)
    with pytest.raises(DataError, match=r"X has \d+ rows and y has 60"):
        classifier().fit(Dropping(frame["text"]), LABELS)


def test_a_text_more_by_another_thread(fitted):
    """Rows and their labels are those of one moment."""
    texts = list(TEXTS)
    stop = threading.Event()

    def change():
        while not stop.is_set():
            texts.append("word1")
            del texts[60:]

    changer = threading.Thread(target=change)
    changer.start()
    try:
        for _ in range(20):
            labels, _ = fitted.predict_topk(texts, k=2)
            assert len(labels) in (60, 61)
    finally:
        stop.set()
        changer.join()


def _predict(model, answers):
    answers.put(model.predict_topk(TEXTS, k=2)[1].tolist())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_forks_after_threads(fitted, monkeypatch):
    """As in servers that load a model and then fork, while other requests are answered."""
    monkeypatch.setenv("REMBRANDT_NUM_THREADS", "2")
    threads.for_each(lambda i: None, [(i,) for i in range(4)])  # the pool has started
    expected = fitted.predict_topk(TEXTS, k=2)[1].tolist()
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    stop = threading.Event()

    def keep_busy():
        while not stop.is_set():
            fitted.predict_topk(TEXTS, k=2)

    busy = threading.Thread(target=keep_busy)
    busy.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks with threads
            children = [context.Process(target=_predict, args=(fitted, answers)) for _ in range(6)]
            for child in children:
                child.start()
        for _ in children:
            assert answers.get(timeout=SECONDS) == expected
    finally:
        stop.set()
        busy.join()
        for child in children:
            child.join(SECONDS)
            child.kill()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
@pytest.mark.parametrize("backend", ["threading", "multiprocessing"])
def test_joblib_with_two_jobs(fitted, backend, monkeypatch):
    monkeypatch.setenv("REMBRANDT_NUM_THREADS", "2")
    expected = fitted.predict_topk(TEXTS, k=2)[1]
    jobs = (joblib.delayed(fitted.predict_topk)(TEXTS, k=2) for _ in range(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks with threads
        answers = joblib.Parallel(n_jobs=2, backend=backend, timeout=SECONDS)(jobs)
    for _, scores in answers:
        assert_array_equal(scores, expected)
