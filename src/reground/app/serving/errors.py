"""Errors in the form of OpenAI's interface. What a client reads is written here, so it holds no secret and no path."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pydantic import ValidationError
from starlette.exceptions import HTTPException

from reground.app.serving.engine import Busy, UnknownName
from reground.core.errors import (
    AuthenticationError,
    BudgetExceeded,
    ContextLengthExceeded,
    EmptyAnswer,
    ModelError,
    ParseError,
    RegroundError,
    RetrievalError,
    SandboxUnavailable,
    StorageError,
    TransientModelError,
)
from reground.retrieval.filters import FilterError


class Refusal(Exception):
    """A request that gets an error instead of an answer. body: of the response, or of the last event of a stream."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        *,
        param: str | None = None,
        type: str = "invalid_request_error",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers
        self.body = {"error": {"message": message, "type": type, "param": param, "code": code}}


class Disconnect(Exception):
    """The client went away."""


OF_THE_CLIENT = (Refusal, HTTPException, Busy, UnknownName, BudgetExceeded, FilterError)
"""Errors that say all there is to know of them to the client."""

_FAILURES: tuple[tuple[type[RegroundError], int, str, str], ...] = (
    (AuthenticationError, 502, "model_refused", "the model's server refused the key of this server"),
    (TransientModelError, 503, "model_unavailable", "the model cannot be reached now; try again later"),
    (ModelError, 502, "model_failed", "the model gave no usable reply"),
    # the schema may allow nothing, and asked again, the run is replayed
    (ParseError, 400, "no_json", "the model did not put its answer into JSON of this schema, at the second try either"),
    (EmptyAnswer, 502, "empty_answer", "the model's last reply has no text, so there is no answer"),
    (RetrievalError, 502, "search_failed", "the documents could not be searched"),
    (SandboxUnavailable, 500, "no_sandbox", "this server cannot run generated code, which the method needs"),
    (StorageError, 500, "no_storage", "this server cannot write what it does"),
)


def refusal_of(error: Exception) -> Refusal:
    """What a client is told of an error. The message of an error inside stays inside."""
    match error:
        case Refusal():
            return error
        case HTTPException():
            return Refusal(error.status_code, error.detail.lower(), headers=error.headers)
        case Busy():
            again = {"Retry-After": str(math.ceil(error.retry_after))}
            return Refusal(429, str(error), "busy", type="rate_limit_error", headers=again)
        case UnknownName():
            return Refusal(404, str(error), "model_not_found", param="model")
        case FilterError():
            return Refusal(400, str(error), "invalid_value", param="where")
        case BudgetExceeded():
            return Refusal(400, f"the budget ended before there was an answer: {error}", "budget_exceeded")
        case ContextLengthExceeded():
            return Refusal(400, "the conversation is too long for the model", "context_length_exceeded")
    for kind, status, code, message in _FAILURES:
        if isinstance(error, kind):
            return Refusal(status, message, code, type="server_error" if status >= 500 else "invalid_request_error")
    return Refusal(500, "this server could not answer; its log says why", "internal", type="server_error")


def refusal_of_body(error: ValidationError) -> Refusal:
    """What is wrong with the body of a request."""
    errors = error.errors(include_url=False, include_input=False)
    first = max(errors, key=lambda each: len(each["loc"]))  # of a text or a list, what is wrong in the list
    if first["type"] == "json_invalid":
        return Refusal(400, "the body is not JSON", "invalid_json")
    param = ".".join(str(part)[:200] for part in first["loc"] if not set("[-(") & set(str(part))) or None
    why = first["msg"].removeprefix("Value error, ")
    return Refusal(400, f"{param}: {why}" if param else why, "invalid_value", param=param)
