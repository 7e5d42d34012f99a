"""Settings of the encoder."""

from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

from rembrandt.errors import SettingsError
from rembrandt.settings import AUTO, PRESET_NAMES, PartSettings, Preset, declare, document
from rembrandt.settings.kinds import Choice, Kind, Number, Switch, WholeNumber

Training = Literal["fine-tune", "frozen"]
Start = Literal["names", "random"]


@dataclass(frozen=True)
class EncoderName(Kind):
    """The name or the folder of an encoder, or an object with ``encode(list of str)``."""

    type_words = "str or object"
    metavar = "NAME"

    def accepts(self, value: Any) -> bool:
        if isinstance(value, str):
            return bool(value.strip())
        return callable(getattr(value, "encode", None))

    def alternatives(self) -> list[str]:
        return ["a name", "a folder", "an object with encode(list of str)"]


def name_of(encoder: Any) -> str:
    """Return the name of an encoder: its attribute ``name``, or the name of its class; a name as it
    is.
    """
    if isinstance(encoder, str):
        return encoder
    name = getattr(encoder, "name", None)
    if isinstance(name, str):
        return name
    kind = type(encoder)
    return f"{kind.__module__}.{kind.__qualname__}"


@dataclass(frozen=True, repr=False)
class EncoderSettings(PartSettings):
    """Settings of the encoder.

    A setting that is not given has its default.
    """

    name: Any = declare(
        EncoderName(),
        None,
        allows_none=True,
        flat_name="encoder",
        help="Read the texts with this encoder too.",
        note="A folder of transformers or sentence-transformers, the name of such a model where a "
        "hub can be reached, `model2vec:NAME`, or in Python an object with `encode(list of str)`.",
        panel="Model",
    )
    training: Any = declare(
        Choice(get_args(Training)),
        "auto",
        words=AUTO,
        help="Adapt the encoder to the labels, or use its vectors.",
        note="`fine-tune` trains all weights, which takes a GPU unless the data are small. "
        "`frozen` is a label embedding of the vectors. `auto` is `fine-tune` on a GPU and "
        "otherwise `frozen`.",
        panel="Model",
    )
    epochs: Any = declare(
        WholeNumber(1),
        "auto",
        words=AUTO,
        help="Passes over the examples when the encoder is fine-tuned.",
        note="`auto` is the best number on held-out examples, 20 at most.",
        panel="Advanced",
    )
    decay_epochs: Any = declare(
        WholeNumber(0),
        "auto",
        words=AUTO,
        help="Passes after those, in which the step size falls to zero.",
        note="`auto` tries half as many as went before, and keeps them if they are better on "
        "held-out examples; where `epochs` is given there are none.",
    )
    max_tokens: Any = declare(
        WholeNumber(4),
        "auto",
        words=AUTO,
        help="Tokens of a text that the encoder reads.",
        note="`auto` covers 95 % of the texts, as far as the encoder can. Fewer are faster.",
        panel="Advanced",
    )
    batch_size: int = declare(
        WholeNumber(1),
        128,
        help="Examples of a step when the encoder is fine-tuned.",
        note="Fewer where memory runs out.",
        panel="Advanced",
    )
    learning_rate: float = declare(
        Number(0, above=True),
        2e-4,
        help="Step size of the weights of the encoder.",
        note="Smaller for large encoders.",
        panel="Advanced",
    )
    head_learning_rate: float = declare(
        Number(0, above=True),
        3e-3,
        help="Step size of the weights of the labels.",
    )
    start: Any = declare(
        Choice(get_args(Start)),
        "auto",
        words=AUTO,
        help="Weights of the labels before the encoder is fine-tuned.",
        note="`names` are the encoded names of the labels; `auto` uses them where labels have "
        "names or are words.",
    )
    refit: bool = declare(
        Switch(),
        True,
        help="Fine-tune again with the held-out examples.",
        note="Otherwise the encoder of the held-out trial is kept, in half the time.",
    )
    include_encoder: bool = declare(
        Switch(),
        False,
        help="Save the weights of a frozen encoder with the model.",
        note="Otherwise the model has its name and a checksum. A fine-tuned encoder is always "
        "saved.",
        panel="Advanced",
    )

    @classmethod
    def of(cls, value: Any) -> Self:
        if isinstance(value, cls):
            return value
        if not EncoderName().accepts(value):
            raise SettingsError(
                f"{value!r} must be the name or the folder of an encoder, an object with "
                "encode(list of str), EncoderSettings(...) or None",
                "encoder",
            )
        return cls(name=value)

    @classmethod
    def from_json(cls, values: Any) -> Self:
        if isinstance(values, str):
            return cls.of(values)
        return super().from_json(values)


PRESETS: dict[Preset, EncoderSettings] = dict.fromkeys(PRESET_NAMES, EncoderSettings())
document(EncoderSettings, PRESETS)
