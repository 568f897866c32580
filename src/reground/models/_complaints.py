"""Reads a server's error reply, in any of the forms that servers of the OpenAI chat protocol use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from reground.core.http import retry_after

NO_QUOTA = "insufficient_quota"
"""The code of a complaint about an account without money or quota, whatever the provider calls it."""
BAD_KEY = "invalid_api_key"
"""The code of a complaint about the key, where the provider's status does not say so."""
_MOST_LETTERS = 4000
_CONTEXT = re.compile(
    r"context.{0,12}(?:length|window|size|limit)|maximum (?:context|prompt|input|model length)"
    r"|too many (?:input )?tokens|`inputs` tokens \+ `max_new_tokens` must be"
    r"|(?:prompt|input).{0,24} too (?:long|large)|input token count.{0,24}exceeds"
    r"|\bmax\w{0,20}tokens\b.{0,60}(?:too large|range|maximum)",
    re.IGNORECASE,
)
_SYSTEM = re.compile(
    r"system (?:role|message|prompt|instruction)s? (?:is |are )?not supported|developer instruction is not enabled"
    r"|not support (?:the |a )?['\"]?system['\"]? (?:role|message|prompt|instruction|with this model)",
    re.IGNORECASE,
)
_MONEY = frozenset({NO_QUOTA, "billing_error", "enforced_spend_limit_reached", "credit_balance_exhausted"})
_NO_MONEY = re.compile(r"credit balance is too low|\blimit: 0\b", re.IGNORECASE)
_DELAY = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")


@dataclass(frozen=True)
class Complaint:
    """An error reply. retry_after: seconds."""

    status: int
    message: str
    code: str = ""
    param: str = ""
    retry_after: float | None = None

    def names(self, parameter: str) -> bool:
        """Whether it is about this request parameter."""
        if self.param:
            return self.param == parameter
        return re.search(rf"\b{parameter}\b", self.message, re.IGNORECASE) is not None


def read_complaint(status: int, headers: Mapping[str, str], body: bytes) -> Complaint:
    """Read an error reply. Its message may hold a key: `Server.redact` removes it and shortens the message."""
    text = body[:_MOST_LETTERS].decode("utf-8", "replace").strip()
    code = param = ""
    wait = retry_after(headers)
    try:
        data = from_json(body)
        if isinstance(data, list) and len(data) == 1 and isinstance(data[0], dict):
            data = data[0]  # Gemini's errors are lists
        error = data.get("error", data) if isinstance(data, dict) else data
        if isinstance(error, dict):
            # OpenAI says "message", FastAPI says "detail", with the parameter's path in "loc".
            text = str(error.get("message") or error.get("detail") or text)
            code, param = str(error.get("code") or error.get("type") or ""), str(error.get("param") or "")
            code = _known(error, code, text)
            wait = _delay(error) if wait is None else wait
        elif error:
            text = str(error)
    except ValueError:
        if "<html" in text.lower():
            text = ""
    return Complaint(status, " ".join(text[:_MOST_LETTERS].split()), code, param, wait)


def _known(error: Mapping[str, Any], code: str, text: str) -> str:
    """The code, replaced where the provider says in its own words that the account or the key is at fault."""
    if error.get("type") in _MONEY or code in _MONEY or _NO_MONEY.search(text):
        return NO_QUOTA
    for detail in _details(error):
        if detail.get("reason") == "API_KEY_INVALID":
            return BAD_KEY
        violations = detail.get("violations")
        if isinstance(violations, list) and any("PerDay" in str(each) for each in violations[:100]):
            return NO_QUOTA  # it does not come back before midnight, whatever RetryInfo says
    return code


def _delay(error: Mapping[str, Any]) -> float | None:
    """Seconds to wait from Google's `RetryInfo`, such as "26s"."""
    for detail in _details(error):
        found = _DELAY.fullmatch(str(detail.get("retryDelay", "")))
        if found is not None:
            return float(found[1])
    return None


def _details(error: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The parts of an error as Google's services list them (google.rpc.Status)."""
    details = error.get("details")
    return [each for each in details[:100] if isinstance(each, dict)] if isinstance(details, list) else []


def is_about_system(complaint: Complaint) -> bool:
    """Whether the model takes no system message, in the words of the templates of models and of Google."""
    return complaint.status in (400, 422, 500) and _SYSTEM.search(complaint.message) is not None


def is_about_context(complaint: Complaint) -> bool:
    """Whether prompt and completion together were too long."""
    return (
        complaint.status == 413
        or "context_length" in complaint.code
        or "context_size" in complaint.code
        or _CONTEXT.search(complaint.message) is not None
    )
