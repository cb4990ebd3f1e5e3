"""What the server reads and writes, as JSON: the bodies of requests and of answers."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

# What a list of ids, of features or of hits may hold at most.
MOST_HITS = 1000
MOST_IDS = 100_000
MOST_LISTED = 1000

Text = Annotated[str, Field(min_length=1)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Vector = Annotated[list[Number], Field(min_length=1)]
Texts = Annotated[list[Text], Field(min_length=1)]
Vectors = Annotated[list[Vector], Field(min_length=1)]
FeatureNumber = Annotated[int, Field(strict=True, ge=0, lt=2**31)]
SampleNumber = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
Id = SampleNumber | str


class Body(BaseModel):
    """Keys that are not known are refused, not passed over."""

    model_config = ConfigDict(extra="forbid")


class SparseValue(Body):
    """One feature that is on."""

    index: FeatureNumber
    value: Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


class EmbedSparse(Body):
    """As text-embeddings-inference reads it."""

    inputs: Text | Texts | Vector | Vectors = Field(
        description="A text or a list of texts; of a run without an encoder of texts, a vector or "
        "a list of vectors.",
        examples=["please block my card"],
    )
    truncate: Literal[True] | None = Field(
        default=None, description="Texts are cut where the encoder of the run cuts them."
    )
    truncation_direction: Literal["Right", "right"] | None = None
    prompt_name: None = Field(default=None, description="There are no prompts.")


SparseRows = list[list[SparseValue]]


class OpenAIEmbeddings(Body):
    """As OpenAI's clients write it."""

    input: Text | Texts | Vector | Vectors = Field(
        description="A text or a list of texts; of a run without an encoder of texts, a vector or "
        "a list of vectors, and never numbers of tokens.",
        examples=["please block my card"],
    )
    model: str | None = Field(default=None, description="Any; the answer names the run.")
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: FeatureNumber | None = Field(
        default=None, description="If given, the number of features of the run."
    )
    user: str | None = Field(default=None, description="Not looked at.")


class OpenAIEmbedding(BaseModel):
    """The features of one input."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str = Field(
        description="All features, zeros included; in base64 float32, little end first."
    )


class Usage(BaseModel):
    """Tokens that the encoder of texts has read; 0 for vectors."""

    prompt_tokens: int
    total_tokens: int


class OpenAIAnswer(BaseModel):
    """As OpenAI's clients read it."""

    object: Literal["list"]
    model: str
    data: list[OpenAIEmbedding]
    usage: Usage


class Given(Body):
    """Texts, vectors or rows of features: one of the three."""

    texts: Texts | None = Field(default=None, examples=[["please block my card"]])
    vectors: Vectors | None = None
    rows: Annotated[list[list[SparseValue]], Field(min_length=1)] | None = Field(
        default=None, description="Features, as /embed_sparse gives them, edited or not."
    )


class Search(Given):
    """What to look for."""

    k: Annotated[int, Field(strict=True, ge=1, le=MOST_HITS)] = 10
    among: Annotated[list[Id], Field(max_length=MOST_IDS)] | None = Field(
        default=None, description="Ids: no other sample is found."
    )


class Explain(Given):
    """Two inputs, or one and the id of a sample of the index, or one alone."""

    id: Id | None = None


class Hit(BaseModel):
    """A sample that was found."""

    id: int | str
    cosine: float
    text: str | None = Field(default=None, description="Where the index knows its texts.")


class Found(BaseModel):
    """Hits of each query, the nearest first; fewer than k where fewer share a feature with it."""

    hits: list[list[Hit]]


class Shared(BaseModel):
    """A feature that both have; activations are of rows of length 1."""

    feature: int
    name: str
    contribution: float
    first: float
    second: float


class Explained(BaseModel):
    """The cosine, and what each shared feature adds to it, the largest first."""

    cosine: float
    shared: list[Shared]


class Feature(BaseModel):
    """One feature of the run."""

    feature: int
    name: str
    expected_activation: float = Field(
        description="Its mean over the samples that the run was fitted to, of rows of length 1."
    )
    is_hidden: bool
    merged_into: int | None
    members: list[int] = Field(description="Features that were merged into it, itself among them.")


class FeatureWithSamples(Feature):
    """One feature, and the samples of the index that consist of it most."""

    samples: list[Hit] | None = Field(description="Absent without an index.")


class Features(BaseModel):
    """Some features of the run, those used most first."""

    n_features: int
    n_found: int
    features: list[Feature]


class Health(BaseModel):
    """Whether the server takes requests."""

    status: Literal["ok", "stopping"]


class Refused(BaseModel):
    """Why there is no answer, in one sentence."""

    error: str
    error_type: Literal["Validation", "Overloaded", "Unhealthy", "Backend", "Unauthorized"]


class OpenAIReason(BaseModel):
    """As OpenAI's clients read it."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIRefused(BaseModel):
    """Why there is no answer."""

    error: OpenAIReason


def sentence(errors: list[Any]) -> str:
    """What is wrong with a body, from the errors of pydantic, in one sentence."""
    if not errors:
        return "the request is not as it should be"
    first = min(errors, key=lambda error: len(error["loc"])) if len(errors) > 1 else errors[0]
    place = [str(part) for part in first["loc"] if part not in ("body", "query", "path")]
    name = place[0] if place else "the body"
    if first["type"] == "json_invalid":
        return f"the body is not JSON: {first.get('ctx', {}).get('error', first['msg'])}"
    if first["type"] == "model_attributes_type" and not place:
        return "the body is no JSON object, or came without content-type: application/json"
    if first["type"] == "missing" and place:
        return f"{name} is missing"
    if first["type"] == "extra_forbidden":
        return f"unknown key {place[-1]!r}"
    if name in ("inputs", "input") and len(errors) > 1:
        return (
            f"{name} is neither a text that is not empty, a list of such texts, a vector of finite "
            "numbers, nor a list of such vectors"
        )
    where = ".".join(place) or name
    return f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}"
