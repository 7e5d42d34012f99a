"""What the methods of a fitted classifier share with the command line, the service and Annif: rows,
labels and the model that answers.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.checks import check_number, check_whole
from rembrandt.data import Dataset
from rembrandt.data.arrays import move_columns
from rembrandt.data.hierarchy import Hierarchy, Parents
from rembrandt.data.labels import Title, titles_of
from rembrandt.data.targets import frame_labels, is_matrix, read_targets
from rembrandt.data.views import Views, as_texts, check_blocks, is_blocks
from rembrandt.engines.backend import CPU, backend_for, is_dask
from rembrandt.errors import DataError, SettingsError, counted
from rembrandt.estimators.inputs import read_once
from rembrandt.explanations.explain import term_names
from rembrandt.features.text import is_text
from rembrandt.linalg import Array, Indices
from rembrandt.linalg.sparse import is_sparse
from rembrandt.linalg.validation import bounded_values, check_sparse, refusals
from rembrandt.metrics import f1_scores, hierarchical_scores
from rembrandt.model.model import Model
from rembrandt.nodes import MODES
from rembrandt.predict import Request, answer
from rembrandt.progress import Report, silent
from rembrandt.reranking import Reranker
from rembrandt.scikit import check_array, check_is_fitted

if TYPE_CHECKING:
    from rembrandt.estimators.classifier import RembrandtClassifier

# Measures of the labels that reach the threshold.
SET_MEASURES = (
    "micro_f1",
    "macro_f1",
    "hierarchical_precision",
    "hierarchical_recall",
    "hierarchical_f1",
)
Tail = bool | tuple[float, float]
# A and B of the propensities of most sets of the Repository.
DEFAULT_TAIL = (0.55, 1.5)
TEXTS_NEEDED = "the model reads texts; give the texts, not a matrix of their features"


def rows_of(classifier: "RembrandtClassifier", X: Any, report: Report = silent) -> Views:
    """Turn texts or features, and vectors beside them, into the validated rows of a model."""
    check_is_fitted(classifier, "model_")
    X = read_once(X)
    blocks = X if is_blocks(X) else (X,)
    widths = classifier.model_.vector_widths
    if len(blocks) - 1 != len(widths):
        first = "texts" if classifier.model_.text is not None else "features"
        expected = ", ".join([first, *["vectors"] * len(widths)])
        if widths:
            expected = f"a tuple ({expected})"
        n_given = counted(len(blocks) - 1, "block")
        n_fitted = counted(len(widths), "block")
        raise DataError(
            f"X has {n_given} of vectors next to the {first}, and the model was fitted with "
            f"{n_fitted}; give {expected}",
            parameter="vectors",
        )
    features = classifier._matrix(_features_of(classifier, blocks[0], report))
    vectors = tuple(vector_block(block) for block in blocks[1:])
    check_blocks(features, vectors, widths)
    texts = None
    if classifier.model_.reads_texts:
        if not is_text(blocks[0]):
            raise DataError(TEXTS_NEEDED)
        texts = as_texts(blocks[0])
    return Views(features, vectors, texts)


def _features_of(classifier: "RembrandtClassifier", X: Any, report: Report) -> Any:
    """Return the features of texts; features as they are."""
    if not is_text(X):
        return X
    text = classifier.model_.text
    if text is None:
        raise DataError("the model was fitted to features, not to texts; give a matrix of features")
    return text.transform(X, report)


def vector_block(block: Any) -> NDArray[Any]:
    """Validate vectors that stand beside the features."""
    if is_text(block):
        raise DataError(
            "X has more than one block of texts; join the texts of each example into one"
        )
    if is_sparse(block):
        check_sparse(block, "the vectors")
    with refusals("the vectors"):
        checked: Any = check_array(block, accept_sparse="csr", dtype=[np.float32, np.float64])
    if is_sparse(checked):
        checked = checked.toarray()
    return np.asarray(bounded_values(checked, "the vectors"))


def dataset_rows(classifier: "RembrandtClassifier", data: Dataset, report: Report = silent) -> Any:
    """Return the rows of a dataset; those of a store stay on disk."""
    has_vectors = len(classifier.model_.vector_widths) > 0
    if has_vectors != (data.vectors is not None):
        fitted = "with vectors" if has_vectors else "without vectors"
        raise DataError(
            f"the model was fitted {fitted}; give the same kind of examples", parameter="vectors"
        )
    if data.texts is None and not has_vectors:
        if classifier.model_.reads_texts:
            raise DataError(TEXTS_NEEDED)
        return data.X
    return rows_of(classifier, data.inputs, report)


def prediction_model(
    classifier: "RembrandtClassifier", shortlist: int | bool = False, report: Report = silent
) -> Model:
    """Return the model on the device of prediction; the copy on a device is kept for the next
    call.
    """
    check_is_fitted(classifier, "model_")
    if shortlist is not False and shortlist is not True:
        check_whole("shortlist", shortlist, 1)
    if shortlist is not False:
        classifier.build_shortlist(report)
    backend = CPU
    if not is_dask(classifier.device):
        backend = backend_for(classifier.device)
    model = classifier.model_
    if backend != CPU:
        kept = getattr(classifier, "_on_device", None)
        if kept is None or kept[0] is not model or kept[1] != classifier.device:
            kept = (model, classifier.device, model.on(backend))
            classifier._on_device = kept
        model = kept[2]
    if shortlist is False:
        return model
    return model.with_shortlist(shortlist)


def default_request(
    classifier: "RembrandtClassifier", rows: Any, hierarchy: str = "flat"
) -> Request:
    """Return what `predict` asks: the first label, or all that reach the threshold."""
    if classifier.model_.multiclass:
        return Request(rows, k=1, hierarchy=hierarchy)
    return Request(rows, threshold=classifier.model_.threshold, hierarchy=hierarchy)


def predicted_columns(classifier: "RembrandtClassifier", rows: Any) -> Indices:
    """Return the labels that the parts of a model predict for rows; -1 after the last."""
    return answer(prediction_model(classifier), default_request(classifier, rows)).labels


def checked_hierarchy(model: Model, hierarchy: str) -> str:
    """Return how a hierarchy counts; "auto" closes predictions where there is one."""
    if hierarchy == "auto":
        return "flat" if model.hierarchy is None else "closed"
    if hierarchy not in MODES:
        expected = ", ".join(("auto", *MODES))
        raise SettingsError(f"hierarchy={hierarchy!r} is not one of {expected}", "hierarchy")
    return hierarchy


def top_columns(
    classifier: "RembrandtClassifier",
    rows: Any,
    k: int,
    include: Iterable[Any] | None = None,
    exclude: Iterable[Any] | None = None,
    tail: Tail = False,
    shortlist: int | bool = False,
    report: Report = silent,
    hierarchy: str = "flat",
    branches: bool = False,
) -> tuple[Indices, Array]:
    """Return what `predict_topk` returns, with labels as columns; -1 where there is none."""
    check_whole("k", k, 1)
    model = prediction_model(classifier, shortlist, report)
    mode = checked_hierarchy(model, hierarchy)
    allowed = allowed_columns(classifier, include, exclude, branches, mode == "closed")
    constants = tail_constants(tail)
    request = Request(rows, k, allowed=allowed, tail=constants, hierarchy=mode)
    ranked = answer(model, request, report)
    if allowed is not None:
        n_allowed = len(allowed)
    elif mode == "closed":
        n_allowed = len(model.nodes)
    else:
        n_allowed = model.n_labels
    columns = np.full((len(ranked.labels), min(k, n_allowed)), -1, dtype=np.int64)
    scores = np.zeros(columns.shape, dtype=np.float32)
    width = ranked.labels.shape[1]
    columns[:, :width] = ranked.labels
    scores[:, :width] = ranked.probabilities
    if ranked.weighted is not None:
        scores[:, :width] = ranked.weighted
    return columns, scores


def reranked_columns(
    classifier: "RembrandtClassifier",
    X: Any,
    k: int,
    reranker: Reranker,
    hierarchy: str = "auto",
    **options: Any,
) -> tuple[Indices, Array]:
    """Return what `top_columns` returns with the first labels ranked again."""
    texts = X[0] if is_blocks(X) else X
    if not is_text(texts):
        raise DataError("a reranker reads texts; give texts, not features", parameter="reranker")
    if options.get("tail"):
        raise SettingsError("tail and reranker both rank the labels; give one of them", "reranker")
    if hierarchy == "auto":
        hierarchy = "flat"
    if hierarchy == "closed":
        raise SettingsError(
            "a reranker would take parents apart from what lies below them; use "
            "hierarchy='specific' or 'flat'",
            "hierarchy",
        )
    # The label after the last one that is ranked again bounds the probabilities of these.
    n_labels = max(k, reranker.n_labels + 1)
    rows = rows_of(classifier, X)
    columns, scores = top_columns(classifier, rows, n_labels, hierarchy=hierarchy, **options)
    index = classifier.model_.labels
    names = []
    for row in columns[:, : reranker.n_labels].tolist():
        names.append([index.title(column) for column in row if column >= 0])
    columns, scores = reranker.rank(as_texts(texts).tolist(), names, columns, scores)
    return columns[:, :k], scores[:, :k]


def label_columns(
    classifier: "RembrandtClassifier", labels: Iterable[Any], with_groups: bool = False
) -> Indices:
    """Return the columns of labels, and of groups of them; refuse one that is unknown."""
    wanted = [label.item() if isinstance(label, np.generic) else label for label in labels]
    index = classifier.model_.labels
    if with_groups:
        index = classifier.model_.nodes
    columns = index.columns(wanted)
    if (columns < 0).any():
        unknown = wanted[int(np.flatnonzero(columns < 0)[0])]
        raise DataError(
            f"label {unknown!r} is not one of the {classifier.model_.n_labels:,} of this model; "
            "see classes_"
        )
    return columns


def allowed_columns(
    classifier: "RembrandtClassifier",
    include: Iterable[Any] | None,
    exclude: Iterable[Any] | None,
    branches: bool = False,
    with_groups: bool = False,
) -> Indices | None:
    """Return the columns that may be predicted, None for all.

    With ``branches`` the labels stand for themselves and all that lie below them, and may be
    groups. ``with_groups`` returns groups, too.
    """
    if branches and classifier.model_.hierarchy is None:
        raise SettingsError("branches=True needs a model with parents of labels", "branches")
    if include is None and exclude is None:
        return None
    n_labels = classifier.model_.n_labels
    n_nodes = len(classifier.model_.nodes)
    is_allowed = np.zeros(n_nodes, dtype=bool)
    is_allowed[: n_nodes if with_groups else n_labels] = include is None
    if include is not None:
        is_allowed[_named_nodes(classifier, include, branches, with_groups)] = True
    if exclude is not None:
        is_allowed[_named_nodes(classifier, exclude, branches, with_groups)] = False
    if not with_groups:
        is_allowed[n_labels:] = False
    return np.flatnonzero(is_allowed)


def _named_nodes(
    classifier: "RembrandtClassifier", labels: Iterable[Any], branches: bool, with_groups: bool
) -> Indices:
    """Return the columns of labels, or of their branches."""
    columns = label_columns(classifier, labels, branches or with_groups)
    hierarchy = classifier.model_.hierarchy
    if not branches or hierarchy is None:
        return columns
    return hierarchy.branch(columns.tolist())


def true_labels(
    classifier: "RembrandtClassifier", y: Any
) -> tuple[sparse.csr_array, NDArray[np.int64]]:
    """Return true labels over the columns of the model, and how many of each row have no
    column.
    """
    names = frame_labels(y)
    if names is None and is_matrix(y):
        names = classifier.classes_
    targets = read_targets(y, names)
    columns = classifier.model_.labels.columns(targets.classes.tolist())
    Y = move_columns(targets.Y, columns, classifier.model_.n_labels)
    return Y, np.diff(targets.Y.indptr).astype(np.int64) - np.diff(Y.indptr)


def set_measures(
    model: Model, truth: sparse.csr_array, predicted: Indices, missing: Indices, measure: str
) -> float:
    """Return one of `SET_MEASURES` of predicted label sets."""
    if not measure.startswith("hierarchical"):
        return f1_scores(truth, predicted, missing)[measure]
    if model.hierarchy is None:
        raise SettingsError(f"{measure} needs a model with parents of labels", "measure")
    return hierarchical_scores(truth, predicted, model.hierarchy.above, missing)[measure]


def name_labels(
    classifier: "RembrandtClassifier", names: Mapping[Any, Title] | Iterable[Title]
) -> None:
    """Set the names that are shown for labels; it may be that no label has a name."""
    titles = titles_of(classifier.classes_.tolist(), names)
    classifier.model_ = classifier.model_.with_label_names(*titles)


def hierarchy_of(labels: Iterable[Any], parents: Parents, names: Any = None) -> Hierarchy:
    """Return the hierarchy of labels; refuse parents of which none is that of a label."""
    if not isinstance(names, Mapping):
        names = None
    if not isinstance(parents, str):
        if not isinstance(parents, Mapping) or any(
            isinstance(above, str) for above in parents.values()
        ):
            raise DataError(
                "label_parents must be a mapping of labels to lists of labels, or a separator",
                parameter="label_parents",
            )
        parents = {str(label): [*map(str, above)] for label, above in parents.items()}
    all_labels = [*labels]
    hierarchy = Hierarchy.of(all_labels, parents, names)
    if len(hierarchy.children) == 0:
        example = next(iter(all_labels), None)
        raise DataError(
            f"no label has a parent: there are labels like {example!r}, and parents of "
            f"{_shown(parents)}",
            parameter="label_parents",
        )
    return hierarchy


def _shown(parents: Parents) -> str:
    """Return what parents are given for, in an error."""
    if isinstance(parents, str):
        return f"labels with the separator {parents!r}"
    return repr(next(iter(parents), None))


def feature_names(classifier: "RembrandtClassifier") -> Any:
    """Return the names of all features; None if they are numbered or hashed."""
    if classifier.model_.text is None:
        return classifier.feature_names_
    return term_names(classifier.model_.text)


def tail_constants(tail: Tail) -> tuple[float, float] | None:
    """Return the constants of the propensities, where labels are ranked for the tail."""
    if isinstance(tail, bool):
        return DEFAULT_TAIL if tail else None
    if not isinstance(tail, tuple | list) or len(tail) != 2:
        raise SettingsError(
            f"tail={tail!r} must be True, False or a pair of numbers (A, B)", "tail"
        )
    check_number("tail", tail[0], 0.0)
    check_number("tail", tail[1], 0.0, above=True)
    return float(tail[0]), float(tail[1])
