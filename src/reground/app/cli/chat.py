"""`reground chat`: a conversation over documents, in a terminal or from a pipe."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import chain
from typing import TYPE_CHECKING

import typer

from reground.app.cli import _common as common
from reground.app.cli.codes import EXIT_UNGROUNDED
from reground.app.cli.config import ConfigFile
from reground.app.cli.flags import flattened
from reground.app.cli.offering import is_model_named, offered_instead
from reground.app.options import Json, Quiet
from reground.app.options_talk import Chat

if TYPE_CHECKING:
    from reground.app.result import Result
    from reground.app.serving.engine import Engine
    from reground.app.serving.transcript import Transcript
    from reground.core.run import Event, Observer

_STEP = 400  # characters of a step that are shown while a question is in work


@flattened
def chat(context: typer.Context, order: Chat, output: Json, voice: Quiet, config: ConfigFile = None) -> None:
    """Ask question after question; a follow-up may refer to what was said before. /quit ends, and so does Ctrl-D.

    Ctrl-C stops a question that is in work. The conversation is kept: --resume takes it up, also after the process was
    killed. Questions can come from a pipe, one a line; with --json each answer is one line.

    Exit codes: 0 ended, or every question of a pipe answered; of a pipe 1 a question without an answer, 4 an answer
    that the documents do not give, 130 interrupted; 2 the command or the environment is wrong.

    Example:  reground chat --corpus docs/ --model gguf/smollm2
    """
    from reground.app.cli.preparing import opened_session
    from reground.app.serving.engine import Engine
    from reground.app.serving.transcript import open_transcript
    from reground.app.session import setup_of

    with offered_instead(named=is_model_named(context)), asyncio.Runner() as runner:
        setup = setup_of(order)  # wrong names are refused before a conversation's file is opened
        transcript = open_transcript(order.conversation, resume=order.resume)
        shown = not voice.quiet and not output.as_json
        stack = AsyncExitStack()
        try:
            opening = opened_session(setup, common.consoles()[1], shown=shown)
            engine = Engine(runner.run(stack.enter_async_context(opening)), concurrency=1)
            stack.push_async_callback(engine.aclose)
            code = _Talk(order, engine, transcript, runner, output.as_json, shown).hold()
        finally:
            runner.run(stack.aclose())
    if code:
        raise typer.Exit(code)


def _typed() -> Iterator[str]:
    """What is typed, until Ctrl-D, or Ctrl-C at the prompt."""
    with suppress(ImportError):  # not on Windows
        import readline  # noqa: F401  # lets `input` edit the line and bring back earlier ones

    with suppress(EOFError, KeyboardInterrupt):
        while True:
            yield input("> " if sys.stdout.isatty() else "")  # an answer that is redirected has no prompt beside it


@dataclass(frozen=True)
class _Talk:
    """A conversation. shown: whether progress and remarks are."""

    order: Chat
    engine: Engine
    transcript: Transcript
    runner: asyncio.Runner
    as_json: bool
    shown: bool

    def hold(self) -> int:
        """Go on with the question that was cut short, then ask what is typed or comes in a pipe, one question a line.

        Returns the exit code. Ctrl-C stops a question of a terminal; from a pipe it ends all.
        """
        kept, in_terminal, codes = self.transcript, sys.stdin.isatty(), {0}
        if isinstance(sys.stdin, TextIOWrapper):
            sys.stdin.reconfigure(errors="replace")
        if in_terminal:
            self._remark(f"{next(iter(self.engine.offers))}: ask a question; Ctrl-C stops it, Ctrl-D ends")
        for line in map(str.strip, chain(self._taken_up(), _typed() if in_terminal else sys.stdin)):
            if line in ("/quit", "/exit"):
                break
            try:
                codes.add(self._ask(line) if line else 0)
            except KeyboardInterrupt:
                if not in_terminal:
                    raise
                if kept.unanswered is not None:
                    kept.write("stopped", "interrupted")
                self._remark("stopped; Ctrl-C again ends")
        if in_terminal and kept.path.exists():
            self._remark(f"kept in {kept.path}; --resume takes it up")
        return 0 if in_terminal else 1 if 1 in codes else max(codes)

    def _taken_up(self) -> Iterator[str]:
        """Say what was kept; gives the question that was cut short, if there is one."""
        from reground.app.cli.terminal import say

        kept = self.transcript
        for notice in kept.notices:
            say(notice, error=True)
        if kept.turns:
            self._remark(f"taken up after {len(kept.turns) // 2} questions; the last: {kept.turns[-2].content}")
            self._remark(kept.turns[-1].content)
        if kept.unanswered is not None:
            self._remark(f"going on with: {kept.unanswered}")
            yield kept.unanswered

    def _ask(self, question: str) -> int:
        """Ask, print and keep the answer, and return the exit code of a pipe. Raises KeyboardInterrupt."""
        from reground.app.cli.progress import AskProgress
        from reground.app.cli.terminal import json_text, say
        from reground.core.errors import RegroundError
        from reground.core.language import Message

        self.transcript.write("question", question)
        turns = [*self.transcript.turns, Message(role="user", content=question)]
        try:
            with AskProgress(common.consoles()[1], shown=self.shown) as progress:
                observer = self._telling(progress.on_event)
                work = self.engine.ask("", turns, observer=observer, seed=self.order.seed, form=self.order.form)
                result = self.runner.run(work)
        except RegroundError as error:
            why = " ".join(str(error).split())
            self.transcript.write("stopped", why)
            say(f"error: {why}", error=True)
            if self.as_json:
                say(json_text({"question": question, "error": why}))
            return 1
        self.transcript.write("answer", result.text, result.trajectory_path)
        if self.as_json:
            say(json_text(result.to_dict()))
        else:
            _print(question, result)
        return 0 if result.answered else EXIT_UNGROUNDED

    def _telling(self, observer: Observer) -> Observer:
        """An observer that, on a terminal, also prints each step when the next one begins. So the last one, which is
        the answer, is printed as the answer alone."""
        from reground.app.serving.responses import words_of

        ended: list[str] = []
        in_terminal = common.consoles()[1].is_terminal

        def see(event: Event) -> None:
            if event.type == "begin":
                for words in ended if in_terminal else ():
                    self._remark(words if len(words) <= _STEP else f"{words[: _STEP - 1]}…")
                ended.clear()
            elif words := words_of(event).strip():
                ended.append(words)
            observer(event)

        return see

    def _remark(self, text: str) -> None:
        from reground.app.cli.display import plain

        if self.shown:
            common.consoles()[1].print(plain(text, "dim"), soft_wrap=True)


def _print(question: str, result: Result) -> None:
    """Print the answer with its evidence, and the question where a follow-up was made one of its own."""
    from reground.app.cli.display import plain, show_notes, show_read, show_said, show_support

    out, _ = common.consoles()
    if result.trajectory.question != question:
        out.print(plain(f"asked: {result.trajectory.question}", "dim"), soft_wrap=True)
    show_said(out, result)
    show_support(out, result)
    if not result.quotes:
        show_read(out, result)
    show_notes(out, result)
    out.print()
