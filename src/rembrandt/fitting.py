"""From examples and complete settings to a model: fit each part, and join them by a blend."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rembrandt import __version__
from rembrandt.blend import Blend
from rembrandt.data.content import content_sum
from rembrandt.data.examples import Examples
from rembrandt.declarations import ModelSettings
from rembrandt.engines.backend import CPU, Backend
from rembrandt.linalg import Array
from rembrandt.memory import Shape
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
    parts: dict[str, Part] = {}
    for name in settings.parts:
        parts[name] = fit_part(
            name, data, settings, backend, report, checkpoints, parts, learned.begun.get(name)
        )
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
    return KINDS[spec.kind].fit(data.view(spec.view), spec.settings, fitting)


def check_memory(data: Examples, settings: ModelSettings, backend: Backend = CPU) -> int:
    """Estimate the memory of a fit in bytes; refuse one that would not fit before it begins."""
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
    # Settings may be numbers of NumPy, which are no JSON.
    return int(backend.check_memory(shape, independent=not data.multiclass))
