"""Turns an empty answer into a failure with a reason."""

from __future__ import annotations

from reground.core.errors import EmptyAnswer
from reground.core.trajectory import GenerateStep, Trajectory

_WHYS = {
    "tool_calls": "the server gave a call of a tool instead of text",
    "content_filter": "the server's content filter held the text back",
}


def nothing_said(trajectory: Trajectory) -> EmptyAnswer | None:
    """The error for an answer without text, with the reason from the last call; None if there is text."""
    if trajectory.failure is not None or trajectory.answer is None or trajectory.answer.text.strip():
        return None
    calls = [step for step in trajectory.steps if isinstance(step, GenerateStep) and step.replies]
    return EmptyAnswer(
        f"the answer is empty: {_why(calls[-1]) if calls else 'no model was called'}; --fresh asks again"
    )


def _why(call: GenerateStep) -> str:
    last = call.replies[0]
    if last.text.strip():
        return f"nothing of {call.model}'s last reply could be used"
    if last.finish_reason == "length":
        doing = "while it was still thinking" if last.reasoning else "before it wrote a word"
        limit = call.sampling.max_tokens
        return f"{call.model}'s limit of {limit} tokens ended {doing} (--set max_tokens={4 * limit} allows more)"
    return f"{call.model}: {_WHYS.get(last.finish_reason, 'its reply has no text')}"
