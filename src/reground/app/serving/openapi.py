"""The description of the interface at /openapi.json. The bodies of requests are described by what reads them."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from reground import __version__
from reground.app.serving.requests import ChatRequest, ResponsesRequest

_TEXT, _WHOLE, _OBJECT = {"type": "string"}, {"type": "integer"}, {"type": "object"}


def description(*, with_keys: bool) -> dict[str, Any]:
    """The OpenAPI description. with_keys: whether a key is needed."""
    _, defined = models_json_schema(
        [(ChatRequest, "validation"), (ResponsesRequest, "validation")], ref_template="#/components/schemas/{model}"
    )
    components: dict[str, Any] = {"schemas": {**defined["$defs"], **_SCHEMAS}}
    if with_keys:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "reground", "version": __version__, "description": "Answers checked against documents."},
        "security": [{"key": []}] if with_keys else [],
        "paths": {
            "/v1/models": {"get": _operation("What can be asked", "Models")},
            "/v1/models/{name}": {"get": _operation("One of them", "Model", 404) | {"parameters": [name]}},
            "/v1/chat/completions": {"post": _question("ChatRequest", "ChatCompletion")},
            "/v1/responses": {"post": _question("ResponsesRequest", "Response")},
            "/healthz": {"get": _operation("Whether the server works", "Health")},
        },
        "components": components,
    }


def _operation(summary: str, schema: str, *errors: int) -> dict[str, Any]:
    refused = {str(status): {"description": "Refused", "content": _json("Error")} for status in (401, 403, *errors)}
    answered = {"200": {"description": "Answered", "content": _json(schema)}}
    return {"summary": summary, "responses": answered | refused}


def _question(body: str, schema: str) -> dict[str, Any]:
    asked = _operation("Ask a question", schema, 400, 404, 408, 413, 429, 500, 502, 503)
    asked["responses"]["200"]["content"]["text/event-stream"] = {"schema": _TEXT}
    return asked | {"requestBody": {"required": True, "content": _json(body)}}


def _json(schema: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}


def _has(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}


def _list(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


_MODEL = _has(id=_TEXT, object={"const": "model"}, created=_WHOLE, owned_by=_TEXT)
_MESSAGE = _has(role={"const": "assistant"}, content=_TEXT, annotations=_list(_OBJECT), reasoning_content=_TEXT)
_CHOICE = _has(index=_WHOLE, message=_MESSAGE, finish_reason={"enum": ["stop", "length"]})
_SCHEMAS = {
    "Model": _MODEL,
    "Models": _has(object={"const": "list"}, data=_list(_MODEL)),
    "Health": _has(status={"const": "ok"}, working=_WHOLE, waiting=_WHOLE),
    "Error": _has(
        error=_has(message=_TEXT, type=_TEXT, param={"type": ["string", "null"]}, code={"type": ["string", "null"]})
    ),
    "ChatCompletion": _has(
        id=_TEXT,
        object={"const": "chat.completion"},
        created=_WHOLE,
        model=_TEXT,
        choices=_list(_CHOICE),
        usage=_has(prompt_tokens=_WHOLE, completion_tokens=_WHOLE, total_tokens=_WHOLE),
        reground=_OBJECT,
    ),
    "Response": _has(
        id=_TEXT,
        object={"const": "response"},
        created_at=_WHOLE,
        status={"enum": ["completed", "incomplete"]},
        model=_TEXT,
        output=_list(_OBJECT),
        usage=_has(input_tokens=_WHOLE, output_tokens=_WHOLE, total_tokens=_WHOLE),
        reground=_OBJECT,
    ),
}
