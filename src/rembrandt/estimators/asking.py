"""What a classifier's parameters ask for: checked, with a preset's values where they are open, as a recipe."""

from dataclasses import replace
from typing import Any, Self

from rembrandt.blending import OpenBlend
from rembrandt.calibrating import Threshold
from rembrandt.checkpoints import fingerprint
from rembrandt.checks import check_among, check_number, check_whole, plain
from rembrandt.engines.place import is_dask
from rembrandt.errors import SettingsError
from rembrandt.estimators.base import Estimator
from rembrandt.features.fourier import KERNELS
from rembrandt.fitting import (
    DECODERS,
    Labelled,
    Recipe,
)
from rembrandt.presets import filled, is_auto
from rembrandt.progress import Report
from rembrandt.recipe import TreeSettings
from rembrandt.search import SEARCHED, Found, Watch, search, space_of
from rembrandt.selection import FEWEST, Auto, Open
from rembrandt.settling import Settled, settle


class Asking(Estimator):
    """The parameters of a classifier as the rooms below take them; the classifier itself declares them."""

    threshold: Threshold

    def _asked(self, data: Labelled, growable: bool) -> tuple[Self, Recipe]:
        """This classifier with the preset's values where it is open, and the recipe that they make."""
        given = self.get_params(deep=False) | ({"growable": True} if growable else {})
        asked = type(self)(**filled(self.preset, given, data.Y.nnz / data.Y.shape[1]))
        recipe = asked._recipe(data, **asked._own_settings())
        return asked, recipe

    def _settled(self, data: Labelled, asked: Self, recipe: Recipe, report: Report, watch: Watch) -> Settled:
        """The recipe with what is open chosen on held-out rows, and what was tried."""
        if self.budget is None:
            return asked._chosen(data, recipe, report)
        found = self._search(data, asked, recipe, report, watch)
        # From here on it is the fit of a user who gave what was found: the same model without a search.
        given = asked.get_params(deep=False) | found.chosen | {"random_state": recipe.embedding.seed}
        chosen = type(self)(**given)
        settled = chosen._chosen(data, chosen._recipe(data, **chosen._own_settings()), report)
        return replace(settled, trials=found.trials)

    def _search(self, data: Labelled, asked: Self, recipe: Recipe, report: Report, watch: Watch) -> Found:
        check_number("budget", self.budget, 0.0, above=True)
        asked._choices(), asked._blend()  # refused before anything is done
        open_ = frozenset(name for name in SEARCHED if is_auto(getattr(self, name)))
        space = space_of(data, recipe, asked.get_params(deep=False), open_)
        if data.X.shape[0] < FEWEST or not space.is_open:
            return Found({}, [], 0.0, "there was nothing to choose, or too few examples to hold any out")
        return search(data, recipe, space, float(self.budget or 0), report, watch)

    def _chosen(self, data: Labelled, recipe: Recipe, report: Report) -> Settled:
        """What this classifier leaves open, chosen without a budget."""
        choices, blend, tree = self._choices(), self._blend(), None
        if self.sparse:
            pairs, trees = float(self.sparse_pairs), int(self.sparse_trees)
            tree = TreeSettings(pairs=pairs, n_trees=trees)
        return settle(data, recipe, choices, tree, report, blend)

    def _fingerprint(self, data: Labelled) -> dict[str, Any]:
        """What this fit depends on; texts are in its features."""
        settings = {name: plain(value) for name, value in self.get_params(deep=False).items()}
        if not isinstance(settings["random_state"], int):
            raise SettingsError("a checkpoint needs random_state to be a number: without one no two fits are the same")
        if is_dask(self.device):
            settings["device"] = "dask"  # a scheduler may have died, and the next one is elsewhere
        if self.regressor is not None:
            raise SettingsError("a checkpoint cannot keep a regressor; fit without one")
        del settings["text"], settings["verbose"]
        return fingerprint(data.X, data.Y, data.weights, data.classes, settings)

    def _own_settings(self) -> dict[str, Any]:
        check_number("kernel_scale", self.kernel_scale, 0.0, above=True)
        check_whole("max_epochs", self.max_epochs, 1)
        check_among("sparse", self.sparse, (True, False, "alone"))
        check_among("calibrate", self.calibrate, (True, False))
        check_among("growable", self.growable, (True, False))
        if self.growable and self.sparse:
            raise SettingsError("growable=True needs sparse=False: the trees of a sparse part take no new labels")
        check_whole("sparse_trees", self.sparse_trees, 1)
        check_number("sparse_pairs", self.sparse_pairs, 0.0, above=True)
        features = self.n_random_features
        if features is not None:
            check_whole("n_random_features", features, 1)
        return {
            "kernel_scale": float(self.kernel_scale),
            "n_random_features": None if features is None else int(features),
            "max_epochs": int(self.max_epochs),
            "growable": bool(self.growable),
        }

    def _threshold(self, data: Labelled) -> Threshold:
        if not isinstance(self.threshold, str):
            check_number("threshold", self.threshold, 0.0)
            return float(self.threshold)
        check_among("threshold", self.threshold, ("micro", "macro"))
        return 0.5 if data.multiclass else self.threshold  # where a row has one label, the best is predicted

    def _choices(self) -> Open:
        check_among("decoder", self.decoder, ("auto", *DECODERS))
        check_among("kernel", self.kernel, (None, "auto", *KERNELS))
        check_among("normalize", self.normalize, (True, False, "auto"))
        decoder, kernel = self.decoder, self.kernel
        if decoder == "auto" and self.growable:
            decoder = "ridge"  # the one that new examples can be added to
        if decoder == "transpose" and kernel == "auto":
            kernel = None  # they decode the projection itself
        penalty, left_out = _number_or_auto("decoder_ridge", self.decoder_ridge), _share("leave_out", self.leave_out)
        return Open(decoder, kernel, penalty, self.normalize, left_out)

    def _blend(self) -> OpenBlend:
        share = _share("sparse_share", self.sparse_share)
        if self.sparse == "alone":
            if share not in ("auto", 1.0):
                raise SettingsError(f"sparse='alone' leaves no room for sparse_share={share:g}; use sparse=True")
            share = 1.0
        cost = _number_or_auto("sparse_cost", self.sparse_cost, above=True)
        return OpenBlend(cost, _number_or_auto("sparse_power", self.sparse_power, above=True), share)


def _number_or_auto(name: str, value: Any, above: bool = False) -> float | Auto:
    if is_auto(value):
        return "auto"
    check_number(name, value, 0.0, above)
    return float(value)


def _share(name: str, value: Any) -> float | Auto:
    """From 0 to 1, or "auto"."""
    share = _number_or_auto(name, value)
    if share != "auto" and share > 1:
        raise SettingsError(f"{name}={value!r} must be a number from 0 to 1")
    return share
