"""The bodies of requests, and the description of the interface. What is not named here is ignored, as elsewhere.

A method chooses its own sampling, so temperature, top_p, stop, penalties, logprobs and logit_bias are ignored. So are
tools that a client offers, for nothing is ever asked of them; a request that insists on a tool is refused, as are
pictures, several choices and a form of answer other than text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import models_json_schema

from reground import __version__
from reground.app.serving.engine import question_of
from reground.app.serving.errors import Refusal, refusal_of_body
from reground.core.budget import Budget
from reground.core.errors import ConfigurationError
from reground.core.language import Message

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


class TextFormat(_Body):
    """The form of the answer: text, and no other."""

    type: Literal["text"] = "text"


class TextOptions(_Body):
    """The form of the answer, in the Responses API."""

    format: TextFormat | None = None


class _Asked(_Body):
    """What both interfaces have in common.

    model: a name of /v1/models; the first by default. seed: with another one the question is answered again.
    budget: the most that the whole question may cost, all calls of the method together.
    """

    model: str = ""
    stream: bool | None = None
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    user: str | None = None
    metadata: dict[str, JsonValue] | None = None
    budget: Budget | None = None
    tool_choice: ToolChoice = None

    @property
    def most(self) -> Budget | None:
        """The request's budget, with the most tokens that all calls of the method together may write."""
        budget = self.budget or Budget()
        names = ("max_completion_tokens", "max_tokens", "max_output_tokens")
        limits = (budget.completion, *(getattr(self, name, None) for name in names))
        written = min((limit for limit in limits if limit is not None), default=None)
        return self.budget if written is None else budget.model_copy(update={"completion": written})


class ChatRequest(_Asked):
    """The body of POST /v1/chat/completions.

    max_completion_tokens, max_tokens: the most tokens that all calls of the method together may write.
    """

    messages: list[ChatMessage] = Field(min_length=1)
    stream_options: StreamOptions | None = None
    n: Literal[1] | None = None
    max_completion_tokens: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)
    response_format: TextFormat | None = None
    modalities: list[Literal["text"]] | None = None

    @property
    def turns(self) -> list[Message]:
        """The conversation. Raises Refusal where it asks nothing."""
        return _conversation(((turn.role, turn.content) for turn in self.messages), "messages")


class InputItem(_Body):
    """A message of the conversation; items of other types than "message" are left out."""

    type: str = "message"
    role: Literal["system", "developer", "user", "assistant"] | None = None
    content: Content = ""

    @model_validator(mode="before")
    @classmethod
    def _without_what_is_left_out(cls, given: object) -> object:
        """Open models' servers put parts of their own into items of reasoning."""
        if isinstance(given, dict) and given.get("type", "message") != "message":
            return {"type": given["type"]}
        return given


class ResponsesRequest(_Asked):
    """The body of POST /v1/responses. Nothing is stored, so every request brings the whole conversation.

    max_output_tokens: the most tokens that all calls of the method together may write.
    """

    input: str | list[InputItem]
    instructions: str | None = None
    max_output_tokens: int | None = Field(default=None, ge=1)
    text: TextOptions | None = None
    background: Literal[False] | None = None
    previous_response_id: Stored = None
    conversation: Stored = None

    @property
    def turns(self) -> list[Message]:
        """The conversation. Raises Refusal where it asks nothing."""
        turns: list[tuple[str | None, str]] = [("system", self.instructions)] if self.instructions else []
        if isinstance(self.input, str):
            turns.append(("user", self.input))
        else:
            turns += [(item.role, item.content) for item in self.input]
        return _conversation(turns, "input")


class RetrieveRequest(BaseModel):
    """The body of POST /retrieve. corpus: the name of the documents; the first by default."""

    model_config = ConfigDict(extra="forbid", strict=True)

    queries: list[str] = Field(max_length=512)
    topk: int = Field(default=3, ge=1, le=100)
    return_scores: bool = False
    corpus: str | None = None


A = TypeVar("A", bound=BaseModel)


def parsed(kind: type[A], body: bytes) -> A:
    """A body that was read. Raises Refusal."""
    try:
        return kind.model_validate_json(body, strict=True)
    except ValidationError as error:
        raise refusal_of_body(error) from None


def _conversation(turns: Iterable[tuple[str | None, str]], param: str) -> list[Message]:
    messages = [Message(role=_ROLES[role], content=content) for role, content in turns if role in _ROLES]
    try:
        question_of(messages)
    except ConfigurationError as error:
        raise Refusal(400, str(error), "no_question", param=param) from None
    return messages


def description(*, with_keys: bool) -> dict[str, Any]:
    """The OpenAPI description. with_keys: whether a key is needed."""
    bodies = [(kind, "validation") for kind in (ChatRequest, ResponsesRequest, RetrieveRequest)]
    _, defined = models_json_schema(bodies, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    components: dict[str, Any] = {"schemas": {**defined["$defs"], **_SCHEMAS}}
    if with_keys:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    question, errors = "Ask a question", (404, 429, 503)
    return {
        "openapi": "3.1.0",
        "info": {"title": "reground", "version": __version__, "description": "Answers checked against documents."},
        "security": [{"key": []}] if with_keys else [],
        "paths": {
            "/v1/models": {"get": _operation("What can be asked", "Models")},
            "/v1/models/{name}": {"get": _operation("One of them", "Model", 404), "parameters": [name]},
            "/v1/chat/completions": {"post": _operation(question, "ChatCompletion", *errors, takes="ChatRequest")},
            "/v1/responses": {"post": _operation(question, "Response", *errors, takes="ResponsesRequest")},
            "/retrieve": {"post": _operation("Search the documents", "Passages", 404, takes="RetrieveRequest")},
            "/healthz": {"get": _operation("Whether the server works", "Health")},
        },
        "components": components,
    }


def _operation(summary: str, gives: str, *errors: int, takes: str = "") -> dict[str, Any]:
    """What a path does, by the names of the schemas. 429 is a question's, which may be answered as a stream."""
    statuses = (401, 403, *errors, *((400, 408, 413, 500, 502) if takes else ()))
    responses = {str(status): {"description": "Refused", "content": _json("Error")} for status in statuses}
    answer = _json(gives) | ({"text/event-stream": {"schema": {"description": "Events"}}} if 429 in errors else {})
    operation = {"summary": summary, "responses": {"200": {"description": "Answered", "content": answer}, **responses}}
    return operation | ({"requestBody": {"required": True, "content": _json(takes)}} if takes else {})


def _json(schema: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}


def _has(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}


def _list(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


_TEXT, _WHOLE, _OBJECT, _PERHAPS = {"type": "string"}, {"type": "integer"}, {"type": "object"}, ["string", "null"]
_MODEL = _has(id=_TEXT, object={"const": "model"}, created=_WHOLE, owned_by=_TEXT)
_MESSAGE = _has(role={"const": "assistant"}, content=_TEXT, annotations=_list(_OBJECT), reasoning_content=_TEXT)
_CHOICE = _has(index=_WHOLE, message=_MESSAGE, finish_reason={"enum": ["stop", "length"]})
_CHAT = {
    "object": {"const": "chat.completion"},
    "created": _WHOLE,
    "choices": _list(_CHOICE),
    "usage": _has(prompt_tokens=_WHOLE, completion_tokens=_WHOLE, total_tokens=_WHOLE),
}
_RESPONSE = {
    "object": {"const": "response"},
    "created_at": _WHOLE,
    "status": {"enum": ["completed", "incomplete"]},
    "output": _list(_OBJECT),
    "usage": _has(input_tokens=_WHOLE, output_tokens=_WHOLE, total_tokens=_WHOLE),
}
_SCHEMAS = {
    "Model": _MODEL,
    "Models": _has(object={"const": "list"}, data=_list(_MODEL)),
    "Health": _has(status={"const": "ok"}, working=_WHOLE, waiting=_WHOLE),
    "Passages": _has(result=_list(_list(_OBJECT))),
    "Error": _has(error=_has(message=_TEXT, type=_TEXT, param={"type": _PERHAPS}, code={"type": _PERHAPS})),
    "ChatCompletion": _has(id=_TEXT, model=_TEXT, reground=_OBJECT, **_CHAT),
    "Response": _has(id=_TEXT, model=_TEXT, reground=_OBJECT, **_RESPONSE),
}
