"""Request and response bodies, as the OpenAPI description shows them."""

import sys
from typing import Annotated, Any, Literal, Self
from urllib.parse import parse_qs

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    WithJsonSchema,
    model_validator,
)

from rembrandt.serve.errors import RequestError

_ABSENT: Any = None  # the value of a field that is not given; null is refused
MAX_LABELS = 10_000  # in include and exclude
_MAX_SHOWN_CHARACTERS = 100  # of a field's name in a message
_MAX_FORM_FIELDS = 1000
# The OpenAPI description of a request for predictions.
_KINDS: Any = [{"required": ["texts"]}, {"required": ["vectors"]}]
_CORRECTIONS_EXAMPLE: Any = {
    "corrections": [
        {
            "text": "Deep brain stimulation in dystonia",
            "labels": ["Dystonia", "Deep Brain Stimulation"],
            "rejected": ["Parkinson Disease"],
        }
    ]
}
_EXAMPLE: Any = {"texts": ["Deep brain stimulation in dystonia"], "top_k": 5}


def _finite(vector: dict[str, Any]) -> dict[str, Any]:
    """Return a vector of finite numbers; one error is raised, however many values are wrong."""
    for name, value in vector.items():
        is_number = type(value) in (int, float)  # a bool is no number here
        if not is_number or not abs(value) <= sys.float_info.max:
            raise ValueError(f"the value of {name!r} is not a finite number")
    return vector


_VECTOR: Any = {"type": "object", "additionalProperties": {"type": "number"}}
Vector = Annotated[dict[str, Any], AfterValidator(_finite), WithJsonSchema(_VECTOR)]


class Body(BaseModel):
    """The JSON body of a request."""

    @classmethod
    def of(cls, document: Any) -> Self:
        """Validate parsed JSON; of the fields that do not exist one is named, however many there
        are.
        """
        if not isinstance(document, dict):
            raise RequestError(422, "the body must be a JSON object")
        for name in document:
            if name not in cls.model_fields:
                shown = name[:_MAX_SHOWN_CHARACTERS]
                fields = ", ".join(cls.model_fields)
                raise RequestError(422, f"there is no field {shown!r}; use {fields}")
        return cls.model_validate(document)


class PredictRequest(Body):
    """Texts or feature vectors to predict labels for."""

    model_config = ConfigDict(
        strict=True, extra="forbid", json_schema_extra={"oneOf": _KINDS, "examples": [_EXAMPLE]}
    )

    texts: list[str] = Field(
        default=_ABSENT,
        min_length=1,
        fail_fast=True,
        description="Texts, if the model was fitted to texts.",
    )
    vectors: list[Vector] = Field(
        default=_ABSENT,
        min_length=1,
        fail_fast=True,
        description=(
            "Sparse vectors: values by feature name, "
            "or by feature number if the features have no names."
        ),
    )
    model: str = Field(
        default=_ABSENT, description="Name of the model; the first model by default."
    )
    top_k: int = Field(default=5, ge=1, description="Maximum number of labels per text.")
    min_probability: FiniteFloat = Field(
        default=_ABSENT, description="Only labels with this probability or more."
    )
    include: list[str] = Field(
        default=_ABSENT,
        min_length=1,
        max_length=MAX_LABELS,
        fail_fast=True,
        description="Predict these labels only; names or titles.",
    )
    exclude: list[str] = Field(
        default=[], max_length=MAX_LABELS, fail_fast=True, description="Never predict these labels."
    )
    hierarchy: Literal["auto", "closed", "specific", "flat"] = Field(
        default="auto",
        description=(
            "How the parents of labels count: closed adds them, specific leaves them out, flat "
            "ignores them; auto is closed where the model has parents of labels."
        ),
    )
    branches: bool = Field(
        default=False,
        description="Labels to include and exclude stand for all labels below them, too.",
    )
    explain: bool = Field(
        default=False, description="Return the contribution of each word to the log-odds."
    )

    @model_validator(mode="after")
    def _one_kind(self) -> "PredictRequest":
        if (self.texts is None) == (self.vectors is None):
            raise ValueError("give either texts or vectors")
        return self


class SentCorrection(BaseModel):
    """What a person answered to the suggestions for a text."""

    model_config = ConfigDict(strict=True, extra="forbid")

    text: str
    labels: list[str] = Field(
        max_length=MAX_LABELS,
        fail_fast=True,
        description="All labels of the text, identifiers or names; a label may be new.",
    )
    rejected: list[str] = Field(
        default=[],
        max_length=MAX_LABELS,
        fail_fast=True,
        description="Labels that were suggested and are wrong.",
    )


class CorrectionsRequest(Body):
    """Corrections to keep."""

    model_config = ConfigDict(
        strict=True, extra="forbid", json_schema_extra={"examples": [_CORRECTIONS_EXAMPLE]}
    )

    corrections: list[SentCorrection] = Field(min_length=1, fail_fast=True)
    model: str = Field(
        default=_ABSENT, description="Name of the model; the first model by default."
    )


class CorrectionsResponse(BaseModel):
    model: str
    version: str
    accepted: int = Field(description="Number of corrections, which are on disk now.")
    new_labels: list[str] = Field(description="Labels that the model does not know.")


class SuggestRequest(BaseModel):
    """The form that Annif's clients send; fields with other names are ignored."""

    text: str
    limit: int = Field(default=10, ge=1)
    threshold: FiniteFloat = Field(default=_ABSENT, ge=0, le=1)

    @classmethod
    def from_form(cls, body: bytes) -> "SuggestRequest":
        """Parse an URL-encoded form."""
        try:
            fields = parse_qs(
                body.decode("ascii"),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=_MAX_FORM_FIELDS,
            )
        except ValueError as error:
            raise RequestError(400, f"the form cannot be parsed: {error}") from error
        last_values = {name: values[-1] for name, values in fields.items()}
        return cls.model_validate(last_values)

    def as_predict_request(self) -> PredictRequest:
        """Return the same request in the form of this service."""
        return PredictRequest.model_construct(
            texts=[self.text], top_k=self.limit, min_probability=self.threshold
        )


class Word(BaseModel):
    word: str
    contribution: float = Field(description="What it adds to the log-odds.")
    spans: list[tuple[int, int]] = Field(
        description="Its occurrences in the text: start and end in code points."
    )


class Estimate(BaseModel):
    """What single words are worth to a part that reads the text as a whole: estimated by leaving
    each of them out.
    """

    part: str
    words: list[Word]


class PartContribution(BaseModel):
    """What a part of the model adds to the log-odds of a label."""

    part: str
    contribution: float


class Explanation(BaseModel):
    """The log-odds of a label as a sum: ``log_odds = base + comparison + the words' contributions +
    rest``.
    """

    log_odds: float
    base: float = Field(description="The log-odds of an empty text.")
    comparison: float = Field(
        description="What the comparison with the other labels of the text adds."
    )
    words: list[Word] = Field(description="The words with the largest contributions.")
    rest: float = Field(description="The contribution of all other words.")
    segments: list[tuple[int, int, float]] = Field(
        description="Segments of the text: start, end, contribution."
    )
    estimates: list[Estimate] = Field(
        description="Words of parts that read the text as a whole. They do not add up."
    )
    parts: list[PartContribution] = Field(
        description="What each part of the model adds, the largest first: in total as much as the "
        "words and the rest."
    )


class Prediction(BaseModel):
    label: str
    name: str = Field(description="The title of the label, or the label itself if it has no title.")
    probability: float
    assigned: bool = Field(
        description="Whether the model assigns the label: its probability reaches the threshold."
    )
    description: str | None = Field(
        default=None, description="What the label means; only with an explanation."
    )
    explanation: Explanation | None = Field(
        default=None, description="Only if the request asked for it."
    )


class PredictResponse(BaseModel):
    model: str
    version: str
    predictions: list[list[Prediction]] = Field(description="For each text its labels, best first.")


class Node(BaseModel):
    """A label, or a group of labels that is not one itself."""

    label: str
    name: str
    is_label: bool


class Label(BaseModel):
    label: str
    name: str
    description: str = Field(description="What the label means; empty if that was not given.")
    count: int = Field(description="Number of training examples.")
    parents: list[Node] = Field(
        default=[], description="What lies above; only if the model has parents of labels."
    )
    children: list[Node] = Field(
        default=[],
        description="The first labels below; only if the model has parents of labels.",
    )


class LabelsResponse(BaseModel):
    model: str
    labels: list[Label]


class Neighbor(Label):
    cosine: float


class NeighborsResponse(Label):
    model: str
    neighbors: list[Neighbor] = Field(description="The nearest labels, nearest first.")


class ModelSummary(BaseModel):
    name: str
    version: str
    default: bool
    saved_at: str
    n_labels: int
    n_named: int = Field(description="Labels with a name that people read.")
    one_label: bool = Field(description="Whether every text has exactly one label.")
    n_features: int
    n_train: int
    rank: int | None = Field(
        description="Dimensions of the label embedding; null if the model has none."
    )
    parts: list[str] = Field(description="The parts of the model: trees, centroids, embedding.")
    takes: str = Field(description="texts or vectors")
    examples: list[str] = Field(description="Texts that were saved with the model for its page.")


class ModelsResponse(BaseModel):
    models: list[ModelSummary]
    corrections: bool = Field(description="Whether this service keeps corrections.")


class ModelDetails(ModelSummary):
    """A model with its settings and measurements."""

    about: list[str] = Field(
        description="Training data, why its parts were chosen, and quality, as sentences."
    )
    settings: dict[str, Any]
    selection: list[dict[str, Any]] = Field(
        description="The candidates that were tried on held-out training data."
    )
    metrics: dict[str, Any] = Field(description="Measurements that were saved with the model.")
    singular_values: list[float] = Field(
        description="Spectrum of the label embedding; empty if there is none."
    )


class MapResponse(BaseModel):
    """Labels in the plane, the most frequent first."""

    model: str
    state: str = Field(description="ready, working or missing; the message says why.")
    message: str
    label: list[str]
    name: list[str]
    count: list[int]
    x: list[float]
    y: list[float]


class Suggestion(BaseModel):
    uri: str
    label: str
    score: Annotated[float, Field(ge=0, le=1)]


class Suggestions(BaseModel):
    results: list[Suggestion]


class Project(BaseModel):
    """A model in the format of Annif's API."""

    project_id: str
    name: str
    is_trained: bool
    modification_time: str
