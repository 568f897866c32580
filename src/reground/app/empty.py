"""Turns an answer that says nothing into a failure with a reason."""

from __future__ import annotations

from reground.core.citations import only_markers
from reground.core.errors import EmptyAnswer
from reground.core.trajectory import GenerateStep, Trajectory

_WHYS = {
    "tool_calls": "the server gave a call of a tool instead of text",
    "content_filter": "the server's content filter held the text back",
}


def nothing_said(trajectory: Trajectory) -> EmptyAnswer | None:
    """The error for an answer without text, with the reason from the last call; None if there is text.

    The numbers of passages alone, such as "[1]", are no text: small models write them.
    """
    answer = trajectory.answer
    if trajectory.failure is not None or answer is None:
        return None
    if only_markers(answer.text, most=max((each.marker for each in answer.shown), default=0)):
        return EmptyAnswer(
            f"the answer is only the number of a passage, {answer.text.strip()}; a larger model says more"
        )
    if answer.text.strip():
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
        limit = call.sampling.max_tokens + last.room
        return f"{call.model}'s limit of {limit} tokens ended {doing} (--set max_tokens={4 * limit} allows more)"
    return f"{call.model}: {_WHYS.get(last.finish_reason, 'its reply has no text')}"
