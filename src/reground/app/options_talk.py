"""The options of tools for other programs' models, and of conversations in a terminal."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from reground.app.options import Ask
from reground.app.options_serving import Offering

_HIDDEN = {"python_only": True}


@dataclass(frozen=True, kw_only=True)
class Mcp(Offering):
    """The options of `mcp`."""

    http: bool = False
    """Serve by streamable HTTP at http://127.0.0.1:PORT/mcp instead of standard input and output."""

    port: int = field(default=8766, metadata={"min": 0})
    """The port for --http; 0 takes a free one."""

    result_tokens: int = field(default=2000, metadata={"min": 1})
    """The most tokens of a tool's result, as estimated, where a call asks for no other number; at least 300."""


@dataclass(frozen=True, kw_only=True)
class Chat(Ask):
    """The options of `chat`: those of `ask` without the question, and where the conversation is kept."""

    question: str = field(default="", metadata=_HIDDEN)

    fresh: bool = field(default=False, metadata=_HIDDEN)

    conversation: Path | None = None
    """Keep the conversation in this JSONL file; by default in a new file in the user's state folder."""

    resume: bool = False
    """Take up the conversation of --conversation, or else the last one. A question that was cut short goes on where it
    stopped."""
