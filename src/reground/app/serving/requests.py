"""The bodies of requests, and the description of the interface. What is not named here is ignored, as elsewhere.

A method chooses its own sampling, so temperature, top_p, stop, penalties, logprobs and logit_bias are ignored. So are
tools that a client offers, for nothing is ever asked of them; a request that insists on a tool is refused, as are
pictures and several choices.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from importlib.resources import files
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import models_json_schema
from pydantic_core import SchemaError, SchemaValidator, from_json, to_json

from reground import __version__
from reground.app.options import Check
from reground.app.serving.engine import TURN, TURNS, question_of
from reground.app.serving.errors import Refusal, refusal_of_body
from reground.core.answers import MOST_INSTRUCTIONS
from reground.core.budget import MOST_COUNT, Budget
from reground.core.errors import ConfigurationError, ParseError
from reground.core.language import Grammar, LanguageModel, Message, Sampling, first_fault
from reground.core.run import Run
from reground.core.untrusted import harmless
from reground.support.verdicts import MOST_CHARACTERS

_CHOOSES = "search only the documents that this chooses, such as path:guide/* AND date>=2025 AND NOT tag:draft"
Filter = Annotated[str | None, Field(description=_CHOOSES)]
_PART = {
    "type": "object",
    "required": ["type", "text"],
    "properties": {"type": {"enum": ["text", "input_text", "output_text"]}, "text": {"type": "string"}},
}
_CONTENT = {"anyOf": [{"type": "string"}, {"type": "array", "items": _PART}, {"type": "null"}]}
_ROLES: dict[str | None, Literal["system", "user", "assistant"]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}


def _text(content: object) -> str:
    """A content as text. Raises ValueError for pictures and other parts that are none."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise ValueError("a content is a text or a list of parts")
    texts = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(kind, str):
            raise ValueError("a part of a content is an object with a type")
        if kind not in ("text", "input_text", "output_text", "refusal"):
            raise ValueError(f"a part of type {kind[:40]!r} cannot be read; these methods read text alone")
        text = part.get("refusal" if kind == "refusal" else "text")
        if not isinstance(text, str):
            raise ValueError("a part of type text has a text")
        texts.append(text)
    return "\n".join(texts)


def _only(*allowed: object, otherwise: str) -> BeforeValidator:
    """Refuses every other value, with the reason."""

    def check(value: object) -> object:
        if value not in allowed:
            raise ValueError(otherwise)
        return value

    return BeforeValidator(check)


Content = Annotated[str, BeforeValidator(_text), WithJsonSchema(_CONTENT)]
ToolChoice = Annotated[
    JsonValue,
    _only(None, "none", "auto", otherwise="tools of the client are never called, so none can be required"),
    WithJsonSchema({"enum": [None, "none", "auto"]}),
]
Stored = Annotated[None, _only(None, otherwise="nothing is stored here: send the whole conversation as input")]


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class ChatMessage(_Body):
    """A turn. Those of tools belong to other servers' answers and are left out."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Content = ""


class StreamOptions(_Body):
    """include_usage: whether a last chunk brings the usage."""

    include_usage: bool | None = None


_SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "none"}
_LIMITS = {
    **{"minimum": "ge", "maximum": "le", "exclusiveMinimum": "gt", "exclusiveMaximum": "lt"},
    **{"minLength": "min_length", "maxLength": "max_length", "minItems": "min_length", "maxItems": "max_length"},
}
_REMARKS = frozenset(
    {"title", "description", "default", "examples", "format", "$schema", "$id", "$comment", "$defs", "definitions"}
)
_MOST_PARTS, _DEEPEST = 1000, 40
_LARGEST_NUMBER, _LARGEST_SIZE = 2**53, 1000  # an engine writes a rule for each repetition


_INTO_JSON = """\
The question:
{question}

Its answer:
{answer}

Put the answer into JSON of the schema below, and write nothing else. Take every value from the answer. Where it has
none, write null if the schema lets you.

{schema}"""


class JsonSchema:
    """JSON that an answer is put into, by a schema of which a part of JSON Schema is understood.

    form: as responses repeat it. JSON is checked here, whatever kept the reply to it. What refers to itself is refused,
    for some readers of schemas follow it for ever. Raises ValueError for what is not understood.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self.form = {"type": "json_schema", "name": "answer", "schema": schema}
        self._schema = to_json(schema).decode()
        self._parts = 0
        try:
            self._definitions = {**(schema.get("definitions") or {}), **(schema.get("$defs") or {})}
            self._validator = SchemaValidator(self._core(schema, 0))
        except (SchemaError, TypeError):
            raise ValueError("this is no schema that is understood") from None

    async def convert(self, question: str, answer: str, model: LanguageModel, run: Run) -> str:
        """An answer as JSON. A model that can is held to the schema while it writes; what is wrong is sent back once.

        Raises ParseError where it stays wrong, and what a call raises.
        """
        prompt = _INTO_JSON.format(question=question, answer=answer, schema=self._schema)
        sampling = Sampling(grammar=Grammar(gbnf="", json_schema=self._schema))
        return await run.parse(model, prompt, self._parsed, name="JSON", sampling=sampling, grammar="welcome")

    def _parsed(self, text: str) -> str:
        """The JSON of a reply, which may stand in a fence. Raises ParseError."""
        text = text.strip().removeprefix("```json").removeprefix("```").removesuffix("```")
        try:
            value = from_json(text, allow_inf_nan=False)
            self._validator.validate_json(text)
        except ValueError as error:
            raise ParseError(f"{first_fault(error) if isinstance(error, ValidationError) else error}.") from None
        return to_json(value).decode()

    def _core(self, part: Any, depth: int) -> Any:
        """A schema as pydantic's core reads it."""
        self._parts += 1
        if self._parts > _MOST_PARTS or depth > _DEEPEST:
            raise ValueError("the schema is too large, or refers to itself")
        if not isinstance(part, dict):
            raise _Unknown(part)
        schema = {name: value for name, value in part.items() if name not in _REMARKS}
        match schema:
            case {"$ref": str(name), **more} if not more and name.rpartition("/")[2] in self._definitions:
                return self._core(self._definitions[name.rpartition("/")[2]], depth + 1)
            case {"anyOf": [_, *_] as choices, **more} if not more:
                return {"type": "union", "choices": [self._core(each, depth + 1) for each in choices]}
            case {"type": [_, *_] as kinds, **more}:
                return {"type": "union", "choices": [self._core({**more, "type": each}, depth + 1) for each in kinds]}
            case {"enum": [_, *_] as values, **more} | {"const": values, **more} if more.keys() <= {"type"}:
                values = values if "enum" in part else [values]
                self._parts += len(values)
                return {"type": "literal", "expected": values}
            case {"type": str()}:
                return self._of_kind(schema, depth)
            case {} if not schema:
                return {"type": "any"}
        raise _Unknown(part)

    def _of_kind(self, schema: dict[str, Any], depth: int) -> Any:
        kind, more = schema["type"], {name: value for name, value in schema.items() if name != "type"}
        if kind == "array":
            return {"type": "list", "items_schema": self._core(more.pop("items", {}), depth + 1), **_limits(more)}
        if kind in _SCALARS:
            return {"type": _SCALARS[kind], **_limits(more)} | ({} if kind == "null" else {"strict": True})
        if kind != "object" or not more.keys() <= {"properties", "required", "additionalProperties"}:
            raise _Unknown(schema)
        needed, rest = more.get("required", []), more.get("additionalProperties", True)
        fields = {
            name: {"type": "typed-dict-field", "schema": self._core(each, depth + 1), "required": name in needed}
            for name, each in ({name: {} for name in needed} | more.get("properties", {})).items()
        }
        extra = {"extras_schema": self._core(rest, depth + 1)} if isinstance(rest, dict) else {}
        return {"type": "typed-dict", "fields": fields, "extra_behavior": "allow" if rest else "forbid", **extra}


class _Unknown(ValueError):
    def __init__(self, part: object) -> None:
        super().__init__(f"this part of the schema is not understood: {to_json(part).decode()[:200]}")


def _limits(limits: dict[str, Any]) -> dict[str, Any]:
    for name, value in limits.items():
        most = _LARGEST_SIZE if name.endswith(("Length", "Items")) else _LARGEST_NUMBER
        if name not in _LIMITS or type(value) not in (int, float) or abs(value) > most:
            raise _Unknown({name: value})
    return {_LIMITS[name]: value for name, value in limits.items()}


def _form(form: object) -> JsonSchema | None:
    """What an answer is put into; None for text. The method answers as ever, and one more call puts it there."""
    match form:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return JsonSchema({"type": "object"})
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:  # of chat completions
            return JsonSchema(schema)
        case {"type": "json_schema", "schema": dict(schema)}:
            return JsonSchema(schema)
    raise ValueError("the form of an answer is text, json_object, or json_schema with its schema")


_KINDS = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": {"enum": ["text", "json_object", "json_schema"]}},
}
Form = Annotated[JsonSchema | None, PlainValidator(_form), WithJsonSchema({"anyOf": [_KINDS, {"type": "null"}]})]


class TextOptions(_Body):
    """The form of the answer, in the Responses API."""

    format: Form = None


class _Question(_Body):
    """What both interfaces have in common.

    model: a name of /v1/models; the first by default. seed: with another one the question is answered again.
    budget: the most that the whole question may cost, all calls of the method together. where: a filter of
    the documents.
    """

    model: str = ""
    stream: bool | None = None
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    metadata: dict[str, JsonValue] | None = None
    budget: Budget | None = None
    where: Filter = None
    tool_choice: ToolChoice = None

    @property
    def most(self) -> Budget | None:
        """The request's budget, with the most tokens that all calls of the method together may write."""
        budget = self.budget or Budget()
        names = ("max_completion_tokens", "max_tokens", "max_output_tokens")
        limits = (budget.completion, *(getattr(self, name, None) for name in names))
        completion = min((limit for limit in limits if limit is not None), default=None)
        return self.budget if completion is None else budget.model_copy(update={"completion": completion})

    @property
    def json_form(self) -> JsonSchema | None:
        """The JSON that the answer is to be put into."""
        return getattr(self, "response_format", None) or getattr(getattr(self, "text", None), "format", None)


class ChatRequest(_Question):
    """The body of POST /v1/chat/completions.

    max_completion_tokens, max_tokens: the most tokens that all calls of the method together may write.
    """

    messages: list[ChatMessage] = Field(min_length=1)
    stream_options: StreamOptions | None = None
    n: Literal[1] | None = None
    max_completion_tokens: int | None = Field(default=None, ge=1, le=MOST_COUNT)
    max_tokens: int | None = Field(default=None, ge=1, le=MOST_COUNT)
    response_format: Form = None
    modalities: list[Literal["text"]] | None = None

    def turns(self, most: float = math.inf) -> list[Message]:
        """The conversation. Raises Refusal where it asks nothing, or more than `most` characters."""
        return _conversation([(turn.role, turn.content) for turn in self.messages], "messages", most)


class InputItem(_Body):
    """A message of the conversation; items of other types than "message" are left out."""

    type: str = "message"
    role: Literal["system", "developer", "user", "assistant"] | None = None
    content: Content = ""

    @model_validator(mode="before")
    @classmethod
    def _skip_other_items(cls, data: object) -> object:
        """Open models' servers put parts of their own into items of reasoning."""
        if isinstance(data, dict) and data.get("type", "message") != "message":
            return {"type": data["type"]}
        return data


class ResponsesRequest(_Question):
    """The body of POST /v1/responses. Nothing is stored, so every request brings the whole conversation.

    max_output_tokens: the most tokens that all calls of the method together may write.
    """

    input: str | list[InputItem]
    instructions: str | None = None
    user: str | None = None
    max_output_tokens: int | None = Field(default=None, ge=1, le=MOST_COUNT)
    text: TextOptions | None = None
    background: Literal[False] | None = None
    previous_response_id: Stored = None
    conversation: Stored = None

    def turns(self, most: float = math.inf) -> list[Message]:
        """The conversation. Raises Refusal where it asks nothing, or more than `most` characters."""
        turns: list[tuple[str | None, str]] = [("system", self.instructions)] if self.instructions else []
        if isinstance(self.input, str):
            turns.append(("user", self.input))
        else:
            turns += [(item.role, item.content) for item in self.input]
        return _conversation(turns, "input", most)


class RetrieveRequest(BaseModel):
    """The body of POST /retrieve. corpus: the name of the documents; the first by default."""

    model_config = ConfigDict(extra="forbid", strict=True)

    queries: list[str] = Field(max_length=512)
    topk: int = Field(default=3, ge=1, le=100)
    return_scores: bool = False
    corpus: str | None = None
    where: Filter = None


class CheckRequest(BaseModel):
    """The body of POST /v1/check. text: the answer to check. question: the one that it is to, if it is known.

    corpus: the name of the documents; by default those of model, a name of /v1/models, or else the first. k: the most
    passages that are searched for each sentence.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str = Field(min_length=1, max_length=MOST_CHARACTERS)
    question: str | None = Field(default=None, max_length=20_000)
    corpus: str | None = None
    model: str = ""
    where: Filter = None
    k: int = Field(default=Check.k, ge=1, le=50)


A = TypeVar("A", bound=BaseModel)


def parsed(kind: type[A], body: bytes) -> A:
    """A body that was read. Raises Refusal."""
    try:
        return kind.model_validate_json(body, strict=True)
    except ValidationError as error:
        raise refusal_of_body(error) from None


def _conversation(turns: Sequence[tuple[str | None, str]], param: str, most: float) -> list[Message]:
    """The messages as far as they are used: in 4 MiB the event loop would look for tokens of models for seconds."""
    texts = [(_ROLES[role], text.strip()) for role, text in turns if role in _ROLES]
    talk = [each for each in texts if each[0] != "system"]
    talk = talk[: max((number for number, (role, _) in enumerate(talk, start=1) if role == "user"), default=0)]
    if talk and len(talk[-1][1]) > most:
        raise Refusal(400, f"a question may have {most:,} characters (max_question)", "too_long", param=param)
    system = "\n\n".join(text for role, text in texts if role == "system")[: MOST_INSTRUCTIONS + 1]
    before = [(role, text[:TURN]) for role, text in talk[:-1] if text][-TURNS:]
    messages = [Message(role="system", content=harmless(system))] if system else []
    messages += [Message(role=role, content=harmless(text)) for role, text in (*before, *talk[-1:])]
    try:
        question_of(messages)
    except ConfigurationError as error:
        raise Refusal(400, str(error), "no_question", param=param) from None
    return messages


def description(*, with_keys: bool) -> dict[str, Any]:
    """The OpenAPI description. with_keys: whether a key is needed."""
    described: dict[str, Any] = json.loads(files(__package__).joinpath("openapi.json").read_text(encoding="utf-8"))
    bodies = [(kind, "validation") for kind in (ChatRequest, ResponsesRequest, RetrieveRequest, CheckRequest)]
    _, defined = models_json_schema(bodies, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    described["info"]["version"], described["security"] = __version__, [{"key": []}] if with_keys else []
    described["components"]["schemas"] |= defined["$defs"]
    if with_keys:
        described["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return described
