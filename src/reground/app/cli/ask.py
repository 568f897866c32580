"""`reground ask`: answer a question and show the evidence."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from reground.app.cli import _common as common
from reground.app.cli.codes import EXIT_UNGROUNDED
from reground.app.cli.config import ConfigFile
from reground.app.cli.flags import everyday, flattened
from reground.app.cli.offering import found_words, is_model_named, offered_instead
from reground.app.options import Ask, Printed, Quiet

if TYPE_CHECKING:
    from reground.app.result import Result


@everyday(
    "question",
    "corpus",
    "web",
    "method",
    "model",
    "form",
    "settings",
    "budget__tokens",
    "retrieval",
    "steps",
    "as_json",
    "quiet",
    "fresh",
)
@flattened
def ask(context: typer.Context, order: Ask, output: Printed, voice: Quiet, config: ConfigFile = None) -> None:
    """Answer a question step by step, and revise each step with evidence from your documents.

    The same command resumes an interrupted run and replays a finished one. Exit codes: 0 answered from your documents
    (or by a method that reads none), 4 they do not say it, 1 no answer, 2 the command or the environment is wrong.

    Example:  reground ask "Which bridge is older?" --corpus docs/ --method rar
    """
    named = is_model_named(context)
    with offered_instead(named=named):
        _answer(order, as_json=output.as_json, steps=output.steps, quiet=voice.quiet)
    if not (named or output.as_json or voice.quiet or os.environ.get("REGROUND_QUIET")) and (words := found_words()):
        from reground.app.cli.terminal import say

        say(f"note: no model was named, so {order.model} answered; this machine has others: {words}", error=True)


def _answer(order: Ask, *, as_json: bool = False, steps: bool = False, quiet: bool = False) -> None:
    from reground.app.cli.progress import AskProgress
    from reground.app.session import answer

    out, err = common.consoles()
    with AskProgress(err, shown=not quiet and not as_json) as progress:
        result = asyncio.run(answer(replace(order, observer=progress.on_event), progress))
    if as_json:
        from reground.app.cli.terminal import json_text, say

        say(json_text(result.to_dict(), indent=2))
    else:
        from reground.app.cli.display import show_result

        show_result(out, result, steps=steps)
    _leave_quietly(result)
    if result.ungrounded is not None:
        raise typer.Exit(EXIT_UNGROUNDED)


def _leave_quietly(result: Result) -> None:
    """Note on standard error, for scripts, that a budget ended the work or that the answer rests on no document."""
    if os.environ.get("REGROUND_QUIET"):
        return
    from reground.app.cli.terminal import say

    if result.ungrounded is not None:
        say(f"note: {result.ungrounded}: your documents do not give this answer", error=True)
    if result.unchecked is not None:
        say(f"note: the sentences were not checked: {result.unchecked}", error=True)
    if result.stopped is not None:
        say(f"note: the {result.stopped} budget ended the work early; this is the best answer so far", error=True)
