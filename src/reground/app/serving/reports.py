"""What a reply says about its own making, beside what OpenAI's interface has a place for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reground.app.serving.citing import Cited, cited
from reground.app.serving.keeping import WITHIN

if TYPE_CHECKING:
    from reground.app.result import Result


def report(result: Result) -> dict[str, Any]:
    """The field `reground` of a reply.

    answered: whether the documents gave the answer; if not, ungrounded says why. faithfulness: the share of the
    claiming sentences that a passage supports. stopped: the limit of the budget that ended the work. run: the folder of
    the run under the server's home, for `reground show`.
    """
    usage = result.usage
    return {
        "answered": result.answered,
        "ungrounded": result.ungrounded,
        "faithfulness": result.faithfulness,
        "stopped": result.stopped,
        "calls": usage.calls,
        "usd": usage.usd,
        "seconds": round(result.seconds, 3),
        "question": result.trajectory.question,
        "run": _run(result),
    }


def _run(result: Result) -> str:
    folder = result.trajectory_path.parent
    # runs within a budget lie in a folder of that budget
    return f"{folder.parent.name}/{folder.name}" if folder.parent.name.startswith(WITHIN) else folder.name


def content(result: Result) -> Cited:
    """The answer, and behind it a line that says so where the documents do not give it.

    Most clients show the text alone, and a text that rests on nothing looks like any other.
    """
    said = cited(result)
    if result.ungrounded is None:
        return said
    return replace(said, text=f"{said.text}\n\n*Your documents do not say this: {result.ungrounded}.*")


def was_cut(result: Result) -> bool:
    """Whether a limit ended the answer before the method did."""
    return result.stopped is not None or result.trajectory.is_cut


def chat_usage(result: Result) -> dict[str, Any]:
    """The tokens of all calls of the method, as Chat Completions count them."""
    usage = result.usage
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    }


def responses_usage(result: Result) -> dict[str, Any]:
    """The tokens of all calls of the method, as Responses count them. Written tokens are not told apart."""
    usage = result.usage
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
        "output_tokens": usage.completion,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.tokens,
    }
