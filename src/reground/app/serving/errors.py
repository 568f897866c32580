"""Errors in the form of OpenAI's interface. What a client reads is written here, so it holds no secret and no path."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from reground.app.serving.engine import Busy, UnknownName
from reground.core.errors import (
    AuthenticationError,
    BudgetExceeded,
    ContextLengthExceeded,
    EmptyAnswer,
    ModelError,
    RegroundError,
    RetrievalError,
    SandboxUnavailable,
    StorageError,
    TransientModelError,
)

_INVALID = "invalid_request_error"


class Refusal(Exception):
    """A request that gets an error instead of an answer."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        type: str = _INVALID,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = dict(headers or {})
        self._more = {"type": type, "param": param, "code": code}

    @property
    def body(self) -> dict[str, Any]:
        """The body of the response, and of an error in the middle of a stream."""
        return {"error": {"message": str(self), **self._more}}


class Gone(Exception):
    """The client went away."""


_FAILURES: tuple[tuple[type[RegroundError], int, str, str], ...] = (
    (AuthenticationError, 502, "model_refused", "the model's server refused the key of this server"),
    (TransientModelError, 503, "model_unavailable", "the model cannot be reached now; try again later"),
    (ModelError, 502, "model_failed", "the model gave no usable reply"),
    (EmptyAnswer, 502, "empty_answer", "the model's last reply has no text, so there is no answer"),
    (RetrievalError, 502, "search_failed", "the documents could not be searched"),
    (SandboxUnavailable, 500, "no_sandbox", "this server cannot run generated code, which the method needs"),
    (StorageError, 500, "no_storage", "this server cannot write what it does"),
)


def refusal_of(error: Exception) -> Refusal:
    """What a client is told of an error. The message of an error inside stays inside."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, Busy):
        again = {"Retry-After": str(math.ceil(error.retry_after))}
        return Refusal(429, str(error), code="busy", type="rate_limit_error", headers=again)
    if isinstance(error, UnknownName):
        return Refusal(404, str(error), code="model_not_found", param="model")
    if isinstance(error, BudgetExceeded):
        return Refusal(400, f"the budget ended before there was an answer: {error}", code="budget_exceeded")
    if isinstance(error, ContextLengthExceeded):
        return Refusal(400, "the conversation is too long for the model", code="context_length_exceeded")
    for kind, status, code, message in _FAILURES:
        if isinstance(error, kind):
            return Refusal(status, message, code=code, type="server_error")
    return Refusal(500, "this server could not answer; its log says why", code="internal", type="server_error")


def refusal_of_body(error: ValidationError) -> Refusal:
    """What is wrong with the body of a request."""
    errors = error.errors(include_url=False, include_input=False)
    first = max(errors, key=lambda each: len(each["loc"]))  # of a text or a list, what is wrong in the list
    if first["type"] == "json_invalid":
        return Refusal(400, "the body is not JSON", code="invalid_json")
    param = ".".join(str(part) for part in first["loc"] if not set("[-(") & set(str(part))) or None
    said = first["msg"].removeprefix("Value error, ")
    return Refusal(400, f"{param}: {said}" if param else said, code="invalid_value", param=param)
