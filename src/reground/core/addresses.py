"""Addresses of servers as settings: no key, user or password stands in one, for settings are written down and shown."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlsplit

from reground.core.errors import ConfigurationError

_SECRET = re.compile(r"key|token|secret|passw|auth|credential|sig\b|signature", re.IGNORECASE)


def check_address(url: str, what: str = "the base URL") -> None:
    """Refuse an address that holds a user, a password or a key, from whichever setting or variable `what` it comes.

    Raises ConfigurationError, which does not repeat them.
    """
    try:
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        raise ConfigurationError(f"{what} cannot be read; it looks like http://localhost:8000/v1") from None
    if "@" in parts.netloc or any(_SECRET.search(name) for name, _ in query):
        raise ConfigurationError(
            f"{what} holds a user, a password or a key, and addresses are written down and shown: put the key into "
            "OPENAI_API_KEY, or into another environment variable that --api-key-env names"
        )
