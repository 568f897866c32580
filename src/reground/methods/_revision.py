"""When a revision may take the place of what it revises."""

from __future__ import annotations

from reground.core.language import Reply
from reground.core.run import Run


def accepted(reply: Reply, run: Run) -> str | None:
    """The revision, or None if it is empty or was cut before its end: then what was there before stands, and a note says why."""
    if not reply.text.strip():
        run.note("revision empty", kept="the text before")
        return None
    if reply.finish_reason == "length":
        run.note("revision cut", kept="the text before", written=reply.text)
        return None
    return reply.text.strip()
