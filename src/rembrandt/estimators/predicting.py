"""What a fitted classifier answers: labels, rankings, probabilities, and what its model holds."""

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from rembrandt.checks import check_number, check_whole
from rembrandt.data import Dataset
from rembrandt.engines.place import is_dask, place_for
from rembrandt.errors import DataError, SettingsError
from rembrandt.estimators.base import Estimator
from rembrandt.features.joined import Joined, is_blocks
from rembrandt.features.text import TextFeatures, is_text
from rembrandt.metrics import precision_at_k
from rembrandt.model.model import Model
from rembrandt.progress import Report, bars, silent
from rembrandt.scorers.shortlist import default_size
from rembrandt.targets import read_targets

Array = NDArray[Any]
Tail = bool | tuple[float, float]  # rank for PSP@k; the constants A and B of the propensities where they are given


class Predicting(ClassifierMixin, Estimator):
    """Answers of ``model_``, by the names of the labels."""

    model_: Model
    classes_: Array
    text_: TextFeatures | None
    joined_: Joined | None
    device: str
    verbose: int
    _dense_target: Any
    _placed: Any

    def predict(self, X: Any) -> Any:
        """The class of each row; for several labels a row, those whose probability reaches the threshold, as 0/1."""
        X = self.model_rows(X)
        if self.model_.multiclass:
            return self.classes_[self.placed_model().top_k(X, 1)[0][:, 0]]
        labels = self.placed_model().label_sets(X)
        return labels if self._dense_target is None else labels.toarray().astype(self._dense_target)

    def predict_topk(
        self,
        X: Any,
        k: int = 5,
        include: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
        tail: Tail = False,
        shortlist: int | bool = False,
    ) -> tuple[Array, Array]:
        """The ``k`` best labels of each row and their scores, best first.

        ``include`` limits the answer to these labels, ``exclude`` leaves these out. Where fewer than ``k`` labels are
        left, the label is None and the score is -inf.

        ``tail=True`` ranks by what a label is expected to add to PSP@k: its probability × its inverse propensity, which
        is then the score. Rare labels come first where they are nearly as likely as common ones. A pair sets the
        constants (A, B) of the propensities; (0.55, 1.5) without it.

        ``shortlist=N`` looks at about ``N`` labels of each row instead of all, those of the clusters that promise most;
        ``True`` at one in forty, 1,000 at least. What is found has the score that it has without; a label of the best
        ``k`` may be missed now and then. Much faster from 100,000 labels on, once `make_shortlist` has clustered them.
        """
        if k < 1:
            raise SettingsError(f"k={k} must be at least 1")
        found, scores = self.model_topk(X, k, include, exclude, tail, shortlist)
        labels = np.array([*self.classes_.tolist(), None], dtype=object)[found]
        return labels if (found < 0).any() else labels.astype(self.classes_.dtype), scores

    def model_topk(
        self,
        X: Any,
        k: int,
        include: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
        tail: Tail = False,
        shortlist: int | bool = False,
    ) -> tuple[NDArray[np.int64], Array]:
        """As `predict_topk`, with the labels as column numbers (-1 where there is none)."""
        X = self.model_rows(X)
        with bars(self.verbose > 0) as report:
            look_at = self.looked_at(shortlist, tail is not False, report)
            model = self.placed_model()
            return model.top_k(X, k, self._allowed(include, exclude), report, _worth(model, tail), look_at)

    def make_shortlist(self, report: Report = silent) -> Self:
        """Cluster the labels for ``predict_topk(shortlist=...)``, which does so itself when first asked.

        It takes seconds for 200,000 labels. A model that is saved keeps the clusters, 4 bytes a label.
        """
        check_is_fitted(self)
        if self.model_.blend < 1:  # a sparse part that answers alone needs none
            self.model_ = self.model_.with_shortlist(report)
        return self

    def looked_at(self, shortlist: int | bool, tail: bool = False, report: Report = silent) -> int | None:
        """How many labels a row looks at, with what that needs made; None for all."""
        if shortlist is False:
            return None
        if shortlist is not True:
            check_whole("shortlist", shortlist, 1)
        self.placed_model().check_shortlist(tail)
        self.make_shortlist(report)
        return default_size(len(self.classes_)) if shortlist is True else int(shortlist)

    def decision_function(self, X: Any) -> Array:
        """Scores of all labels, n × c; for two classes the difference of the second and the first."""
        scores = self.placed_model().scores(self.model_rows(X))
        return scores[:, 1] - scores[:, 0] if self.model_.multiclass and scores.shape[1] == 2 else scores

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of all labels, n × c."""
        return self.placed_model().probabilities(self.model_rows(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy for one label a row, P@1 for several."""
        if self.model_.multiclass:
            return float(super().score(X, y, sample_weight))
        truth = self._truth(y)
        return float(precision_at_k(truth, self.model_topk(X, 1)[0], 1))

    @property
    def embedding_(self) -> Array:
        return self.model_.embedding

    @property
    def singular_values_(self) -> Array:
        return self.model_.singular_values

    @property
    def projection_(self) -> Array:
        return self.model_.projection

    @property
    def settings_(self) -> dict[str, Any]:
        return self.model_.settings

    @property
    def n_iter_(self) -> int:
        return int(self.settings_["iterations"])

    @property
    def label_counts_(self) -> Array:
        return self.model_.label_counts

    @property
    def n_train_(self) -> int:
        return self.model_.n_train

    def placed_model(self) -> Model:
        """The model where ``device`` is; what is copied there stays for the next call."""
        check_is_fitted(self)
        if self.device == "cpu" or is_dask(self.device):
            return self.model_
        placed = getattr(self, "_placed", None)
        if placed is None or placed[0] is not self.model_ or placed[1] != self.device:
            placed = self._placed = self.model_, self.device, self.model_.on(place_for(self.device))
        return placed[2]

    def model_rows(self, X: Any) -> Any:
        """Features or texts as the model's rows, checked."""
        check_is_fitted(self)
        if self.text_ is not None and is_text(X):
            X = self.text_.transform(X)
        if self.text_ is not None and is_blocks(X):
            X = tuple(self.text_.transform(x) if is_text(x) else x for x in X)
        return self._features(X, reset=False)

    def dataset_rows(self, data: Dataset, report: Report = silent) -> Any:
        """What a reader returned as the model's rows: its features, or those of its texts."""
        if self.joined_ is not None and data.X is None:
            raise DataError("the model was fitted to texts beside other features, which a file of texts does not have")
        return data.X if self.text_ is None or data.texts is None else self.text_.transform(data.texts, report)

    def _allowed(self, include: Iterable[Any] | None, exclude: Iterable[Any] | None) -> NDArray[np.int64] | None:
        if include is None and exclude is None:
            return None
        chosen = np.zeros(len(self.classes_), dtype=bool)
        chosen[slice(None) if include is None else self.model_columns(include)] = True
        chosen[self.model_columns(() if exclude is None else exclude)] = False
        return np.flatnonzero(chosen)

    def model_columns(self, labels: Iterable[Any]) -> list[int]:
        """The column numbers of labels; one that the model does not know is refused."""
        place = {label: column for column, label in enumerate(self.classes_.tolist())}
        wanted = [label.item() if isinstance(label, np.generic) else label for label in labels]
        unknown = [label for label in wanted if label not in place]
        if unknown:
            raise DataError(
                f"label {unknown[0]!r} is not one of the {len(place):,} that this model knows; see classes_"
            )
        return [place[label] for label in wanted]

    def _truth(self, y: Any) -> sparse.csr_array:
        """``y`` as a 0/1 matrix over this model's labels; labels it never saw are no column and never a hit."""
        targets = read_targets(y)
        place = {label: column for column, label in enumerate(self.classes_.tolist())}
        columns = np.array([place.get(label, -1) for label in targets.classes.tolist()])[targets.Y.indices]
        rows = np.repeat(np.arange(targets.Y.shape[0]), np.diff(targets.Y.indptr))
        known = columns >= 0
        shape = (targets.Y.shape[0], len(place))
        return sparse.csr_array((np.ones(known.sum(), np.float32), (rows[known], columns[known])), shape=shape)


def _worth(model: Model, tail: Tail) -> Array | None:
    """What a hit on each label counts, where it matters."""
    if tail is False or tail is True:
        return model.worth() if tail else None
    if not isinstance(tail, tuple | list) or len(tail) != 2:
        raise SettingsError(f"tail={tail!r} must be True, False or a pair of numbers (A, B)")
    check_number("tail's A", tail[0], 0.0)
    check_number("tail's B", tail[1], 0.0, above=True)
    return model.worth(*map(float, tail))
