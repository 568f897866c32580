"""Checks servers' addresses for keys, users and passwords, because settings are recorded and shown."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlsplit

from reground.core.errors import ConfigurationError

_SECRET = re.compile(r"key|token|secret|passw|auth|credential|sig\b|signature", re.IGNORECASE)
_MODELS_KEY = "put the key into OPENAI_API_KEY, or into another environment variable that --api-key-env names"


def check_address(url: str, what: str = "the base URL", *, instead: str = _MODELS_KEY) -> None:
    """Refuse an address that contains a user, a password or a key.

    what: the setting or variable that holds it. instead: where the key belongs, for the error message.
    Raises ConfigurationError, without repeating the address.
    """
    try:
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        raise ConfigurationError(f"{what} cannot be read; it looks like http://localhost:8000/v1") from None
    if "@" in parts.netloc or any(_SECRET.search(name) for name, _ in query):
        raise ConfigurationError(
            f"{what} holds a user, a password or a key, and addresses are recorded and shown: {instead}"
        )
