"""The learning step as a plug: what predicts embedded labels from features, where a linear regression is not enough.

A *lift* turns rows into other rows, which the projection of a model then takes. Random features of a kernel are a lift
that is known before the embedding: ridge regression on them is kernel ridge regression, and all else stays linear. A
regressor with ``fit`` and ``predict`` is fitted anew for every block that the eigensolver asks about; the one fitted to
``YV`` is the lift, and the projection is the identity.
"""

from typing import Any

import numpy as np

from rembrandt.errors import ModelError, SettingsError
from rembrandt.regressors.foreign import Foreign, check_regressor
from rembrandt.regressors.kernel import FourierLift, KernelFeatures
from rembrandt.regressors.mlp import MLP, Network
from rembrandt.storage.arrays import Arrays

Lift = FourierLift | Network | Foreign
_NAMED: dict[str, Any] = {"kernel": KernelFeatures, "mlp": MLP}
_PREFIX = "lift."


def regressor_of(given: Any) -> Any:
    """What a user means: None, one of ours by name or as it was saved, or an object with ``fit`` and ``predict``."""
    if given is None:
        return None
    if isinstance(given, str) and given in _NAMED:
        return _NAMED[given]()
    if isinstance(given, dict) and given.get("name") in _NAMED:
        return _NAMED[given["name"]](**given["params"])
    if isinstance(given, tuple(_NAMED.values())):
        ours: Any = given
        ours.check()
        return ours
    if isinstance(given, str | dict | type):
        raise SettingsError(f"regressor={given!r} is none of None, 'kernel', 'mlp' and an object with fit and predict")
    check_regressor(given)
    return given


def described(regressor: Any) -> Any:
    """A regressor as JSON: by name and settings where it is ours, else what it calls itself."""
    for name, kind in _NAMED.items():
        if isinstance(regressor, kind):
            return {"name": name, "params": regressor.get_params()}
    return regressor if regressor is None or isinstance(regressor, str) else {"name": None, "params": repr(regressor)}


def is_foreign(regressor: Any) -> bool:
    """Whether it is none of ours, and so cannot be saved."""
    return regressor is not None and not isinstance(regressor, (str, dict, *_NAMED.values()))


def pack_lift(lift: Lift | None) -> tuple[Arrays, str | None]:
    """A lift as named arrays and its kind, to be written to a file."""
    if lift is None:
        return {}, None
    return {_PREFIX + name: np.asarray(array) for name, array in lift.packed().items()}, lift.kind


def unpack_lift(arrays: Arrays, kind: str | None) -> Lift | None:
    """What `pack_lift` packed."""
    if kind is None:
        return None
    own = {name.removeprefix(_PREFIX): array for name, array in arrays.items() if name.startswith(_PREFIX)}
    if kind == FourierLift.kind:
        return FourierLift.unpacked(own)
    if kind == Network.kind:
        return Network.unpacked(own)
    raise ModelError(
        f"the model has a regressor of kind {kind!r}, which this version does not know; install a newer one"
    )


__all__ = [
    "MLP",
    "KernelFeatures",
    "Lift",
    "check_regressor",
    "described",
    "is_foreign",
    "pack_lift",
    "regressor_of",
    "unpack_lift",
]
