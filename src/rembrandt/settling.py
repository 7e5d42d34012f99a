"""Every open choice of a fit settled by trials on held-out training rows: the decoder, then the sparse part."""

from dataclasses import dataclass, field, fields, replace
from typing import Any

from rembrandt.blending import ALL_OPEN, OpenBlend, choose_blend, sparse_alone, usual_cost
from rembrandt.fitting import Labelled, Recipe, check_memory
from rembrandt.packing import Arrays
from rembrandt.progress import Report, silent
from rembrandt.recipe import TreeSettings
from rembrandt.selection import Open, select

MANY = 5_000  # labels, beyond which low rank adds nothing to a sparse part


@dataclass(frozen=True)
class Settled:
    """The recipe chosen and every trial behind it."""

    recipe: Recipe
    trials: list[dict[str, Any]] = field(default_factory=list)
    blends: list[dict[str, Any]] = field(default_factory=list)

    def packed(self) -> tuple[Arrays, dict[str, Any]]:
        """As named arrays and JSON, to be written to a file."""
        return {}, {"recipe": self.recipe.facts(), "trials": self.trials, "blends": self.blends}

    @classmethod
    def unpacked(cls, arrays: Arrays, facts: dict[str, Any]) -> "Settled":
        """What `packed` packed."""
        return cls(Recipe.of(facts["recipe"]), facts["trials"], facts["blends"])


def settle(
    data: Labelled,
    recipe: Recipe,
    choices: Open,
    tree: TreeSettings | None,
    report: Report = silent,
    blend: OpenBlend = ALL_OPEN,
) -> Settled:
    """``recipe`` with nothing open; ``tree`` is the sparse part, where one is wanted."""
    per_label = data.Y.nnz / data.Y.shape[1]
    if tree is not None and data.Y.shape[1] > MANY:
        # On held-out rows of PubMed-MeSH (10,403 labels) the best share of low rank gave 61.5 % of P@5 and none 61.5;
        # with more labels, and rarer ones, a sample of the rows would hold hardly a label twice to choose on.
        blend = blend.usually(usual_cost(per_label), tree.power, 1.0)
    if tree is not None and blend.share == 1:
        alone = sparse_alone(replace(recipe, normalize=choices.normalize is True))
        chosen, blends = choose_blend(data, alone, tree, report, blend)
        return Settled(chosen, blends=[vars(trial) for trial in blends])
    check_memory(data, replace(recipe, decoder="transpose"))
    selection = select(data, recipe, choices, report)
    trials = [vars(trial) for trial in selection.trials]
    if tree is None:
        return Settled(selection.recipe, trials)
    chosen, blends = choose_blend(data, selection.recipe, tree, report, blend)
    return Settled(chosen, trials, [vars(trial) for trial in blends])


def repeated(recipe: Recipe, settings: dict[str, Any]) -> Recipe:
    """``recipe`` with what a fitted model's ``settings`` say was chosen; a rank that was read off is found anew."""
    names = {f.name for f in fields(Recipe)} & settings.keys() - {"embedding", "auto_rank", "tree", "regressor"}
    chosen = {name: settings[name] for name in names}
    if settings.get("tree") is not None:
        chosen["tree"] = TreeSettings(**settings["tree"])
    before = settings["embedding"]
    embedding = replace(recipe.embedding, ridge=before["ridge"])
    if not settings["auto_rank"]:
        embedding = replace(embedding, n_components=before["n_components"], at_most=before["at_most"])
    recipe = replace(recipe, embedding=embedding, auto_rank=settings["auto_rank"])
    alone = "tree" in chosen and chosen["blend"] == 1
    return replace(sparse_alone(recipe) if alone else recipe, **chosen)
