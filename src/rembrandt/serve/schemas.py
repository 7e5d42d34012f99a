"""What callers send and get, as it stands in the OpenAPI description."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

_ABSENT: Any = None  # not given; null itself is refused
MOST_LABELS = 10_000  # in include and exclude


class PredictRequest(BaseModel):
    """Texts, or vectors of features, to find the labels of."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        json_schema_extra={
            "oneOf": [{"required": ["texts"]}, {"required": ["vectors"]}],
            "examples": [{"texts": ["Deep brain stimulation in dystonia"], "top_k": 5}],
        },
    )

    texts: list[str] = Field(default=_ABSENT, min_length=1, description="Texts, where the model was fitted on texts.")
    vectors: list[dict[str, FiniteFloat]] = Field(
        default=_ABSENT,
        min_length=1,
        description="Sparse vectors: values by the features' names, or by their numbers where they have no names.",
    )
    model: str = Field(default=_ABSENT, description="Which model; the first of the service when not given.")
    top_k: int = Field(default=5, ge=1, description="Labels for each text, at most.")
    threshold: FiniteFloat = Field(default=_ABSENT, description="Leave out labels with a smaller score.")
    include: list[str] = Field(
        default=_ABSENT,
        min_length=1,
        max_length=MOST_LABELS,
        description="Choose among these labels only, given by name or title.",
    )
    exclude: list[str] = Field(default=[], max_length=MOST_LABELS, description="Never answer with these labels.")
    probabilities: bool = Field(default=False, description="Give probabilities as scores, and compare those.")
    explain: bool = Field(default=False, description="Say what each word adds to each score.")

    @model_validator(mode="after")
    def _one_kind(self) -> "PredictRequest":
        if (self.texts is None) == (self.vectors is None):
            raise ValueError("give texts or vectors, one of the two")
        return self


class Word(BaseModel):
    word: str
    contribution: float = Field(description="What it adds to the score.")
    spans: list[tuple[int, int]] = Field(
        description="Where it stands in the text, in code points; the end is exclusive."
    )


class Explanation(BaseModel):
    """``score = base + the words' contributions + rest``."""

    score: float
    base: float = Field(description="The score of an empty text.")
    words: list[Word] = Field(description="The words that move the score most.")
    rest: float = Field(description="What all other words add.")
    segments: list[tuple[int, int, float]] = Field(
        description="The text's pieces that add to the score: from, to, how much."
    )


class Prediction(BaseModel):
    label: str
    name: str = Field(description="The label's title, or the label itself where it has none.")
    score: float
    explanation: Explanation | None = Field(default=None, description="Only where it was asked for.")


class PredictResponse(BaseModel):
    model: str
    version: str
    predictions: list[list[Prediction]] = Field(description="For each text its labels, best first.")


class Label(BaseModel):
    label: str
    name: str
    count: int = Field(description="How often it occurred in training.")


class LabelsResponse(BaseModel):
    model: str
    labels: list[Label]


class Neighbor(Label):
    cosine: float


class NeighborsResponse(Label):
    model: str
    neighbors: list[Neighbor] = Field(description="The nearest labels in the embedding, nearest first.")


class ModelSummary(BaseModel):
    name: str
    version: str
    default: bool
    saved_at: str
    n_labels: int
    n_features: int
    n_train: int
    rank: int
    takes: str = Field(description="texts or vectors")


class ModelsResponse(BaseModel):
    models: list[ModelSummary]


class ModelDetails(ModelSummary):
    """A model with how it was made and what was measured."""

    settings: dict[str, Any]
    selection: list[dict[str, Any]] = Field(description="Every candidate that was tried on held-out training data.")
    metrics: dict[str, Any] = Field(description="What was measured and kept with the model.")
    singular_values: list[float]


class MapResponse(BaseModel):
    """Labels in the plane, the most frequent ones first."""

    model: str
    state: str = Field(description="ready, working, or missing; the message says why.")
    message: str
    label: list[str]
    name: list[str]
    count: list[int]
    x: list[float]
    y: list[float]


class State(BaseModel):
    status: str


class Suggestion(BaseModel):
    uri: str
    label: str
    score: Annotated[float, Field(ge=0, le=1)]


class Suggestions(BaseModel):
    results: list[Suggestion]


class Project(BaseModel):
    """A model, as Annif's clients know it."""

    project_id: str
    name: str
    is_trained: bool
    modification_time: str
