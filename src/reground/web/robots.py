"""robots.txt (RFC 9309): which pages of a host a program may fetch, and how often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from reground.core.errors import MissingExtra


class Rules(Protocol):
    """What a host allows."""

    @property
    def pause(self) -> float:
        """Seconds between two pages."""
        ...

    def allows(self, url: str, /) -> bool:
        """Whether a page may be fetched."""
        ...


@dataclass(frozen=True)
class _Everything:
    pause: float = 0.0

    def allows(self, url: str, /) -> bool:
        return True


EVERYTHING: Rules = _Everything()


class _Parsed:
    def __init__(self, text: str, agent: str) -> None:
        try:
            from protego import Protego
        except ImportError:
            raise MissingExtra("reading pages of the web", "web") from None
        self._rules = Protego.parse(text)
        self._agent = agent
        self.pause = max(0.0, self._rules.crawl_delay(agent) or 0.0)

    def allows(self, url: str, /) -> bool:
        return bool(self._rules.can_fetch(url, self._agent))


def rules_of(text: str, agent: str) -> Rules:
    """The rules of a robots.txt for a program."""
    return _Parsed(text, agent)
