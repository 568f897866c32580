"""Keys: where they are read, and how they are kept out of messages."""

from __future__ import annotations

import os
import re

from reground.core.errors import ConfigurationError

_SECRET = re.compile(r"\b(?:(?:sk|rk|pk|key|gsk|hf|Bearer)[-_ ]|AIza)[\w*.+/=-]{6,}", re.IGNORECASE)
_LONGEST = 400


def key_in(variable: str) -> str | None:
    """The key in an environment variable; None if it is unset or blank. Raises ConfigurationError if it can be none."""
    key = os.environ.get(variable, "").strip() or None
    if key is not None and not (key.isascii() and key.isprintable()):
        raise ConfigurationError(f"{variable} has characters that no key has")
    return key


def redacted(text: str, key: str | None) -> str:
    """A server's message, shortened and without anything that may be a key."""
    if key:
        text = text.replace(key, "[key]")
        # The message may have been cut in the middle of the key.
        end = next((n for n in range(len(key) - 1, 3, -1) if text.endswith(key[:n])), 0)
        text = text[: len(text) - end]
    return _SECRET.sub("[key]", text)[:_LONGEST]
