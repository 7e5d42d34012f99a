"""Declarations of settings: defaults, ranges and merging, in Python, in JSON, on the command line and
in Annif; and the page of the documentation.
"""

import copy
import inspect
import json
import math
import pickle
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import typer
from scipy import sparse
from sklearn.base import clone
from typer.testing import CliRunner

from rembrandt import RembrandtClassifier
from rembrandt.annif.settings import classifier_from
from rembrandt.cli import options
from rembrandt.cli.failure import options_of, with_options
from rembrandt.cli.settings import Settings
from rembrandt.declarations import (
    FLAT,
    GENERAL,
    NAMES,
    PARAMETERS,
    PART_PRESETS,
    PART_SETTINGS,
    SETTINGS,
    ModelSettings,
    PartSpec,
    as_json,
    default_of,
    preset_settings,
    preset_values,
)
from rembrandt.errors import SettingsError
from rembrandt.parts.embedding.settings import EmbeddingSettings
from rembrandt.parts.encoder.settings import EncoderName, EncoderSettings
from rembrandt.parts.trees.settings import TreeSettings
from rembrandt.planning import resolve
from rembrandt.settings import PRESET_NAMES, UNSET
from rembrandt.settings.kinds import Choice, Names, Number, Seconds, Switch, Text, WholeNumber
from rembrandt.settings_page import settings_page
from tests.estimators.problems import examples, several

DEFAULTS = RembrandtClassifier(random_state=0).get_params(deep=False)
PARTS = {"embedding": EmbeddingSettings, "trees": TreeSettings, "encoder": EncoderSettings}
SETTINGS_OF_PARTS = [setting for name in PARTS for setting in PART_SETTINGS[name]]
# Rules that fill in what is "auto" from another setting: by the setting, what may follow from it.
# What a kernel that is no longer affordable changes besides itself.
WITHOUT_KERNEL = {"decoder", "retrieves_labels"}
FOLLOWING = {
    "label_features": {"passes"},
    "n_components": {"n_random_features", "kernel", "decoder_ridge", *WITHOUT_KERNEL},
    "method": {"label_power", "row_power"},
    "decoder": {"kernel", "decoder_ridge", "n_random_features"},
    "kernel": {"decoder_ridge", "n_random_features"},
    "growable": {"kernel", "decoder_ridge", "n_random_features", "label_power", "row_power"},
    "n_oversamples": {"kernel", "decoder_ridge", "n_random_features", *WITHOUT_KERNEL},
}
# Values that other parameters have to allow.
NEEDED = {"growable": {"parts": ("embedding",)}}


def named(setting):
    return setting.flat_name


each_setting = pytest.mark.parametrize("setting", SETTINGS, ids=named)
each_part_setting = pytest.mark.parametrize("setting", SETTINGS_OF_PARTS, ids=named)
# Settings of parts that read features; an encoder has to be there before its settings are completed.
each_resolved_setting = pytest.mark.parametrize(
    "setting", [setting for setting in SETTINGS if setting.group != "encoder"], ids=named
)
each_resolved_part_setting = pytest.mark.parametrize(
    "setting", [setting for setting in SETTINGS_OF_PARTS if setting.group != "encoder"], ids=named
)
each_option = pytest.mark.parametrize(
    "setting", [setting for setting in SETTINGS if setting.panel is not None], ids=named
)
each_preset = pytest.mark.parametrize("preset", PRESET_NAMES)


def accepted(setting):
    """Values at the ends of the range, and words."""
    kind = setting.kind
    if isinstance(kind, Seconds):
        values = [0.001, 3600.0]
    elif isinstance(kind, Number):
        least = 1e-9 if kind.above else kind.minimum
        most = 1e9 if kind.maximum == math.inf else kind.maximum
        values = [least, most, np.float32(most), np.float64(most)]
    elif isinstance(kind, WholeNumber):
        values = [kind.minimum, 10**6, np.int64(kind.minimum)]
    elif isinstance(kind, Switch):
        values = [True, False, np.bool_(True)]
    elif isinstance(kind, Choice):
        values = list(kind.names)
    elif isinstance(kind, Names):
        # The names of labels are a part among others.
        alone = [name for name in kind.names if name != NAMES]
        values = [*alone, kind.names[:-1], list(kind.names[:-1])]
    else:
        values = ["cpu"]
    if setting.allows_none:
        values.append(None)
    return [*values, *setting.words]


def refused(setting):
    """Values just outside the range, and of other types."""
    kind = setting.kind
    values = [[], {"a": 1}, float("nan")]
    if isinstance(kind, Number):
        values += ["strong", float("inf"), True, kind.minimum - 1e-9]
        if kind.above:
            values.append(kind.minimum)
        if kind.maximum < math.inf:
            values.append(kind.maximum + 1e-9)
    elif isinstance(kind, WholeNumber):
        values += ["many", kind.minimum - 1, kind.minimum + 0.5, True]
    elif isinstance(kind, EncoderName):
        values += [-1, ""]
    elif not isinstance(kind, Text):
        values += ["no such name", -1, ""]
    if not setting.allows_none:
        values.append(None)
    if "auto" not in setting.words and not isinstance(kind, Text | EncoderName):
        values.append("auto")
    return values


def parameters_with(setting, value):
    """Parameters of the classifier with one setting."""
    if not setting.group:
        return DEFAULTS | {setting.name: value}
    return DEFAULTS | {setting.group: PARTS[setting.group](**{setting.name: value})}


def resolved(**params):
    X, Y = several()
    return resolve(DEFAULTS | params, examples(sparse.csr_array(X), Y))


def part_settings(name, **params):
    """Return the resolved settings of a part of a model with trees and an embedding."""
    return resolved(**{"parts": ("trees", "embedding")} | params).parts[name].settings


def best_facts():
    """Return the settings of a model as JSON."""
    settings = resolved(preset="best")
    encoder = PartSpec("encoder", EncoderSettings("name").with_defaults(), "texts")
    settings = replace(settings, parts=settings.parts | {"encoder": encoder})
    return json.loads(json.dumps(settings.to_json()))


def option_settings(*words):
    """Return the options of the command line as ``fit`` gets them."""
    seen = []

    def command(*, settings: Settings) -> None:
        seen.append(settings)

    app = typer.Typer()
    app.command()(options.grouped(command))
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exit_code:
        raise SettingsError(" ".join(result.output.replace("│", " ").split()))
    return seen[0]


def as_typed(value):
    """Return a value as it is typed on the command line or in a project of Annif."""
    if value is None:
        return "none"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(value)
    return str(value)


def typed_values(setting):
    """Accepted values that can be typed."""
    return [value for value in accepted(setting) if not isinstance(value, np.generic)]


def refused_words(setting):
    """Refused values that can be typed."""
    return [
        as_typed(value)
        for value in refused(setting)
        if isinstance(value, str | int | float)
        and value != ""
        and not isinstance(value, bool)
        and not setting.accepts(setting_value(setting, as_typed(value)))
    ]


def setting_value(setting, text):
    try:
        return setting.parse(text)
    except SettingsError:
        return []


class TestDeclarations:
    def test_the_constructor_has_the_declared_defaults(self):
        signature = inspect.signature(RembrandtClassifier).parameters
        objects = {"embedding", "trees", "encoder", "text", "verbose"}
        declared = {setting.name: setting for setting in GENERAL} | PARAMETERS
        assert declared.keys() == signature.keys() - objects
        for name, setting in declared.items():
            assert signature[name].default == setting.default, name

    def test_every_field_is_declared(self):
        for name, part in PARTS.items():
            settings = PART_SETTINGS[name]
            assert [setting.name for setting in settings] == [field.name for field in fields(part)]
            for setting in settings:
                assert f"    {setting.name} : {setting.type_words}" in part.__doc__

    def test_flat_names_are_unique(self):
        assert len(FLAT) == len(SETTINGS)

    def test_fields_without_a_value_are_unset(self):
        for part in PARTS.values():
            assert set(vars(part()).values()) == {UNSET}
            assert part().set_values() == {}

    @each_setting
    def test_the_default_of_every_preset_is_accepted(self, setting):
        setting.check(setting.default)
        for value in preset_values(setting).values():
            setting.check(value)
        assert setting.help.endswith(".")
        assert default_of(setting)


class TestRanges:
    @each_setting
    def test_ends_are_accepted(self, setting):
        for value in accepted(setting):
            setting.check(value)

    @each_resolved_setting
    def test_the_constructor_accepts_the_ends(self, setting):
        for value in accepted(setting):
            params = parameters_with(setting, value) | NEEDED.get(setting.name, {})
            assert isinstance(resolved(**params), ModelSettings)

    @pytest.mark.parametrize("setting", PARAMETERS.values(), ids=named)
    def test_a_parameter_is_the_same_as_the_setting_of_its_part(self, setting):
        for value in accepted(setting):
            in_settings = resolved(**parameters_with(setting, value))
            assert resolved(**{setting.name: value}) == in_settings
        for value in refused(setting):
            with pytest.raises(SettingsError) as error:
                resolved(**{setting.name: value})
            assert error.value.parameters == (setting.name,)

    @each_setting
    def test_the_constructor_refuses_what_is_outside(self, setting):
        for value in refused(setting):
            with pytest.raises(SettingsError) as error:
                resolved(**parameters_with(setting, value))
            assert error.value.parameters == (setting.name,)
            assert f"{setting.name}={value!r}" in str(error.value)
            assert setting.expected in str(error.value)

    @each_part_setting
    def test_json_is_checked(self, setting):
        facts = best_facts()
        for value in accepted(setting):
            facts["parts"][setting.group]["settings"][setting.name] = as_json(value)
            settings = ModelSettings.from_json(facts).parts[setting.group].settings
            assert getattr(settings, setting.name) == value
        for value in refused(setting):
            facts["parts"][setting.group]["settings"][setting.name] = value
            with pytest.raises(SettingsError) as error:
                ModelSettings.from_json(facts)
            assert f"{setting.name}={value!r}" in str(error.value)
            assert setting.expected in str(error.value)

    @pytest.mark.parametrize("name", ["preset", "threshold"])
    def test_json_of_parameters_is_checked(self, name):
        facts = best_facts()
        for value in refused(FLAT[name]):
            with pytest.raises(SettingsError) as error:
                ModelSettings.from_json(facts | {name: value})
            assert f"{name}={value!r}" in str(error.value)

    @each_option
    def test_the_command_line_accepts_the_ends(self, setting):
        for value in typed_values(setting):
            if isinstance(setting.kind, Switch) and not setting.words:
                words = [setting.option] if value else []
            elif isinstance(setting.kind, Seconds) and value is None:
                words = []
            else:
                words = [setting.option, as_typed(value)]
            parameters = option_settings(*words).parameters()
            if not setting.group or setting.is_parameter:
                typed = parameters[setting.name]
            else:
                part = parameters[setting.group] or PARTS[setting.group]()
                typed = getattr(part, setting.name)
            if isinstance(setting.kind, Names) and value in setting.kind.names:
                assert typed == (value,)
            elif (value is None or not words) and setting.group and not setting.is_parameter:
                assert typed is UNSET
            elif isinstance(value, list):
                assert typed == tuple(value)
            else:
                assert typed == value

    @each_option
    def test_the_command_line_refuses_what_is_outside(self, setting):
        if isinstance(setting.kind, Switch) and not setting.words:
            return  # a flag has no value
        for text in refused_words(setting):
            with pytest.raises(SettingsError) as error:
                option_settings(setting.option, text).parameters()
            message = str(error.value)
            shown = {setting.name: setting.option}
            assert setting.option in with_options(message, error.value.parameters, shown)
            value = setting_value(setting, text)
            assert text in message or repr(value) in message

    @each_setting
    def test_annif_accepts_the_ends_and_refuses_what_is_outside(self, setting):
        for value in typed_values(setting):
            classifier = classifier_from({setting.flat_name: as_typed(value)})
            part = classifier
            if setting.group and not setting.is_parameter:
                part = getattr(classifier, setting.group)
            assert setting.accepts(getattr(part, setting.name))
        for text in refused_words(setting):
            with pytest.raises(SettingsError) as error:
                classifier_from({setting.flat_name: text})
            assert text in str(error.value)


class TestParts:
    @each_part_setting
    def test_a_representation_has_what_is_set(self, setting):
        part = PARTS[setting.group]
        assert repr(part()) == f"{part.__name__}()"
        value = accepted(setting)[0]
        assert repr(part(**{setting.name: value})) == f"{part.__name__}({setting.name}={value!r})"

    @each_part_setting
    def test_json_has_what_is_set(self, setting):
        part = PARTS[setting.group]
        assert as_json(part()) == {}
        value = accepted(setting)[0]
        settings = part(**{setting.name: value})
        assert as_json(settings) == {setting.name: value}
        assert part(**json.loads(json.dumps(as_json(settings)))) == settings

    @pytest.mark.parametrize("part", PARTS.values())
    def test_copies_are_equal(self, part):
        for settings in (part(), part().with_defaults()):
            assert pickle.loads(pickle.dumps(settings)) == settings
            assert copy.deepcopy(settings) == settings
            assert hash(copy.copy(settings)) == hash(settings)
        assert pickle.loads(pickle.dumps(part())).__dict__.popitem()[1] is UNSET
        assert part() != part().with_defaults()

    def test_estimators_can_be_cloned(self):
        classifier = RembrandtClassifier(
            embedding=EmbeddingSettings(n_iter=2), trees=TreeSettings()
        )
        again = clone(classifier)
        assert again.get_params() == classifier.get_params()
        assert "embedding=EmbeddingSettings(n_iter=2)" in repr(classifier)


class TestMerging:
    @each_preset
    def test_nothing_set_is_the_preset(self, preset):
        plain = resolved(preset=preset)
        assert resolved(preset=preset, embedding=EmbeddingSettings()) == plain
        assert resolved(preset=preset, trees=TreeSettings()) == plain

    @pytest.mark.parametrize("part", PARTS.values())
    def test_nothing_overrides_nothing(self, part):
        for settings in (part(), part().with_defaults()):
            assert settings.overridden_by(None) == settings
            assert settings.overridden_by(part()) == settings

    @each_part_setting
    def test_what_is_set_overrides(self, setting):
        part = PARTS[setting.group]
        for value in accepted(setting):
            user = part(**{setting.name: value})
            complete = part().with_defaults()
            assert complete.overridden_by(user) == replace(complete, **{setting.name: value})
            assert user.overridden_by(part()) == user
            assert getattr(user.with_defaults(), setting.name) == value

    @each_preset
    @each_resolved_part_setting
    def test_one_value_changes_that_value_and_what_follows_from_it(self, setting, preset):
        before = part_settings(setting.group, preset=preset, **NEEDED.get(setting.name, {}))
        for value in accepted(setting):
            if value == "candidates":
                continue
            params = {setting.group: PARTS[setting.group](**{setting.name: value})}
            params |= NEEDED.get(setting.name, {})
            after = part_settings(setting.group, preset=preset, **params)
            changed = {
                name for name in vars(before) if getattr(before, name) != getattr(after, name)
            }
            assert changed <= {setting.name} | FOLLOWING.get(setting.name, set())
            is_open = isinstance(value, str) and value == "auto"
            if setting.name == "n_random_features":
                is_open = value is None
            if not is_open:
                assert getattr(after, setting.name) == value

    @each_preset
    @pytest.mark.parametrize(
        "setting",
        [
            setting
            for setting in SETTINGS_OF_PARTS
            if setting.panel is not None and setting.group != "encoder"
        ],
        ids=named,
    )
    def test_one_option_is_one_setting(self, setting, preset):
        value = typed_values(setting)[1]
        words = ["--preset", preset]
        if isinstance(setting.kind, Switch) and not setting.words:
            value = True
            words.append(setting.option)
        else:
            words += [setting.option, as_typed(value)]
        params = option_settings(*words).parameters()
        part = PARTS[setting.group](**{setting.name: value})
        assert resolved(**params) == resolved(preset=preset, **{setting.group: part})

    @each_preset
    def test_two_power_iterations(self, preset):
        params = option_settings("--preset", preset, "--n-iter", 2).parameters()
        assert params["embedding"] == EmbeddingSettings(n_iter=2)
        params["parts"] = ("trees", "embedding")
        after = part_settings("embedding", **params)
        assert after == replace(part_settings("embedding", preset=preset), n_iter=2)
        assert (after.tol, after.label_power, after.row_power) == (0.25, 0.25, 0.5)

    def test_no_options_set_nothing(self):
        params = option_settings().parameters()
        assert params["embedding"] is None
        assert params["trees"] is None

    @each_preset
    @pytest.mark.parametrize("name", PARTS)
    def test_the_settings_of_a_preset_are_complete(self, preset, name):
        settings = preset_settings(name, preset, PARTS[name]())
        assert settings.set_values().keys() == {setting.name for setting in PART_SETTINGS[name]}
        assert settings == PART_PRESETS[name][preset].with_defaults()

    def test_what_presets_set(self):
        """These numbers were measured; a change of the declarations must not change them."""
        for preset in ("fast", "balanced", "best"):
            assert preset_settings("trees", preset, TreeSettings()) == TreeSettings(
                n_trees="auto",
                max_example_node_pairs="auto",
                label_features="auto",
                cost=1.0,
                power=3.0,
                prune_below=0.1,
                tolerance=0.2,
                passes="auto",
                beam=10,
            )
            assert preset_settings("embedding", preset, EmbeddingSettings()) == EmbeddingSettings(
                n_components="auto",
                method="rembrandt",
                ridge="auto",
                decoder="auto",
                decoder_ridge="auto",
                kernel="auto",
                normalize="auto",
                growable=False,
                kernel_scale=1.0,
                n_random_features=None,
                label_power="auto",
                row_power="auto",
                label_ridge=None,
                projection_ridge=None,
                leave_out=0.5,
                retrieves_labels="auto",
                n_oversamples=20,
                n_iter=1,
                solver="auto",
                tol=0.25,
                max_iter=10,
                center=False,
                max_epochs=40,
            )


class TestDocumentation:
    def test_the_page_is_up_to_date(self):
        page = Path(__file__).parents[1] / "docs/settings.md"
        assert page.read_text(encoding="utf-8") == settings_page(), (
            "run: python -m rembrandt.settings_page > docs/settings.md"
        )

    def test_options_have_the_declared_names(self):
        from rembrandt.cli.app import app

        command = typer.main.get_command(app).commands["fit"]
        shown = options_of(command)
        for setting in SETTINGS:
            if setting.panel is not None:
                assert shown[setting.name] == setting.option
