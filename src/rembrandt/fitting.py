"""From examples and complete settings to a model: fit each part, and join them by a blend."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

import numpy as np

from rembrandt import __version__
from rembrandt.blend import Blend
from rembrandt.data.content import content_sum
from rembrandt.data.examples import Examples
from rembrandt.declarations import ModelSettings
from rembrandt.engines.backend import CPU, Backend
from rembrandt.errors import MemoryEstimateError
from rembrandt.linalg import Array
from rembrandt.linalg.threads import n_threads, own_threads, side_by_side
from rembrandt.memory import Shape, estimate
from rembrandt.model.facts import Facts
from rembrandt.model.model import Model
from rembrandt.parts.protocol import NO_PARTS, Fitting, Part, Shared
from rembrandt.parts.registry import KINDS
from rembrandt.progress import Report, silent
from rembrandt.storage.checkpoints import NO_CHECKPOINTS, Checkpoints, NamedCheckpoints


@dataclass(frozen=True)
class Learned:
    """What was learned on held-out examples and goes with a fit to all of them."""

    blend: Blend | None = None  # None: fixed weights
    threshold: float | Array = 0.5
    # Parts that were fitted to nearly all examples; some of their work is kept.
    begun: Mapping[str, Part] = field(default_factory=dict)


NOTHING_LEARNED = Learned()


def fit_model(
    data: Examples,
    settings: ModelSettings,
    learned: Learned = NOTHING_LEARNED,
    backend: Backend = CPU,
    report: Report = silent,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
) -> Model:
    """Fit the model that ``settings`` describe."""
    memory_estimate = check_memory(data, settings, backend)

    def fit(name: str, earlier: Mapping[str, Part], report: Report) -> Part:
        begun = learned.begun.get(name)
        return fit_part(name, data, settings, backend, report, checkpoints, earlier, begun)

    fitted: dict[str, Part] = {}
    if checkpoints is NO_CHECKPOINTS:  # which are of one stage after the other
        fitted = fit_together(data, settings, fit, backend, report)
    for name in settings.parts:
        if name not in fitted:
            fitted[name] = fit(name, fitted, report)
    parts = {name: fitted[name] for name in settings.parts}
    blend = learned.blend or Blend.fixed(parts, competing=data.multiclass)
    return Model(
        classes=data.classes,
        multiclass=data.multiclass,
        parts=parts,
        blend=blend,
        label_counts=np.bincount(data.Y.indices, minlength=data.n_labels),
        n_train=data.n,
        settings=settings,
        facts=Facts(__version__, memory_estimate, content=content_sum(data)),
        threshold=learned.threshold,
    )


def threads_of_part(
    name: str, data: Examples, settings: ModelSettings, backend: Backend
) -> AbstractContextManager[None]:
    """Run BLAS on one thread for a part of sparse rows, or one that may be fitted beside others.

    Its threads wait without sleeping, so beside other work, that of our own threads too, a product
    takes several times the CPU time. And the bits of its products depend on their number, while a
    part must not depend on whether it is fitted beside others.
    """
    spec = settings.parts[name]
    if not backend.on_host or not KINDS[spec.kind].shares_cores:
        return nullcontext()
    names = independent_parts(data, settings, backend)
    is_beside_others = len(names) > 1 and name in names
    if is_beside_others or data.view(spec.view).X.is_sparse:
        return own_threads()
    return nullcontext()


def fit_together(
    data: Examples,
    settings: ModelSettings,
    fit: Callable[[str, Mapping[str, Part], Report], Part],
    backend: Backend = CPU,
    report: Report = silent,
) -> dict[str, Part]:
    """Fit parts that need no others at the same time, each by ``fit(name, NO_PARTS, report)``.

    What one part cannot share among the cores is done beside the others. Return no parts where they
    are to be fitted one after the other: on one core, with little memory, or with rows on disk.
    """
    names = independent_parts(data, settings, backend)
    has_room = _shape(data, settings, backend).parts_at_once
    if len(names) < 2 or not has_room or n_threads() == 1:
        return {}

    def fit_alone(name: str, report: Report) -> Part:
        return fit(name, NO_PARTS, report)

    try:
        parts = side_by_side(fit_alone, names, report, own_pools=True)
    except (MemoryEstimateError, MemoryError):
        return {}  # there may be enough for one at a time, or the error is raised again
    return dict(zip(names, parts, strict=True))


def independent_parts(data: Examples, settings: ModelSettings, backend: Backend = CPU) -> list[str]:
    """Return the parts that may be fitted at the same time: at most one of each kind, as the
    estimate of memory has one.
    """
    names: list[str] = []
    if not backend.on_host:
        return names
    views: set[str] = set()
    for name, spec in settings.parts.items():
        kind = KINDS[spec.kind]
        n_in_memory, _ = data.view(spec.view).X.resident()
        is_alone = name == spec.kind and kind.shares_cores and n_in_memory == data.n
        uses_others = kind.learns_from_earlier(spec.settings) and spec.view in views
        if is_alone and not uses_others:
            names.append(name)
        views.add(spec.view)
    return names


def fit_part(
    name: str,
    data: Examples,
    settings: ModelSettings,
    backend: Backend = CPU,
    report: Report = silent,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
    earlier: Mapping[str, Part] = NO_PARTS,
    begun: Part | None = None,
    shared: Shared | None = None,
    stopping: Examples | None = None,
    scored: Examples | None = None,
) -> Part:
    """Fit one part of a model; it may learn from what ``earlier`` parts list."""
    spec = settings.parts[name]
    if name != spec.kind:
        checkpoints = NamedCheckpoints(checkpoints, name)
    same_view = {
        other: part for other, part in earlier.items() if settings.parts[other].view == spec.view
    }
    fitting = Fitting(
        seed=settings.seed,
        backend=backend,
        report=report,
        checkpoints=checkpoints,
        earlier=same_view,
        begun=begun,
        shared=shared or Shared(),
        stopping=None if stopping is None else stopping.view(spec.view),
        scored=None if scored is None else scored.view(spec.view),
    )
    with threads_of_part(name, data, settings, backend):
        return KINDS[spec.kind].fit(data.view(spec.view), spec.settings, fitting)


def check_memory(data: Examples, settings: ModelSettings, backend: Backend = CPU) -> int:
    """Estimate the memory of a fit in bytes; refuse one that would not fit before it begins."""
    shape = _shape(data, settings, backend)
    # Settings may be numbers of NumPy, which are no JSON.
    return int(backend.check_memory(shape, independent=not data.multiclass))


def _shape(data: Examples, settings: ModelSettings, backend: Backend) -> Shape:
    """Return the sizes that memory is estimated from; parts are fitted at the same time where there
    is memory for that.
    """
    n_rows, n_entries = data.X.resident()
    for block in data.vectors:
        n_entries += block.resident()[1]
    shape = Shape(
        n=n_rows,
        d=data.X.shape[1] + 1,
        c=data.n_labels,
        nonzeros=int(n_entries + data.Y.nnz),
        itemsize=data.X.dtype.itemsize,
    )
    for spec in settings.parts.values():
        shape = KINDS[spec.kind].shape(shape, spec.settings, data.view(spec.view))
    if len(independent_parts(data, settings, backend)) < 2:
        return shape
    at_once = replace(shape, parts_at_once=True)
    has_room = estimate(at_once)["total"] <= backend.available()
    if not has_room:
        return shape
    return at_once
