"""`reground chat`: a conversation over documents, in a terminal or from a pipe."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from io import TextIOWrapper
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

_STEP = 400
"""Characters of a step that are shown while a question is in work; /steps shows all of the last answer's."""
_COMMAND = re.compile(r"/[a-z?]+$")
_HELP = """\
/sources  what the last answer rests on, and what else was read
/steps    the steps of the last answer, with what was corrected
/cost     what the last answer and the whole conversation cost
/new      forget what was said, and begin again
/quit     end; so do Ctrl-D, and Ctrl-C at the prompt
Ctrl-C stops a question that is in work. Everything else is a question; it may refer to what was said before."""


@flattened
def chat(context: typer.Context, order: Chat, output: Json, voice: Quiet, config: ConfigFile = None) -> None:
    """Ask question after question; a follow-up may refer to what was said before. /help lists the commands.

    The conversation is kept: --resume takes it up, also after the process was killed. Questions can come from a pipe,
    one a line; with --json each answer is one line.

    Exit codes: 0 ended, or every question of a pipe answered; of a pipe 1 a question without an answer, 4 an answer
    that the documents do not give, 130 interrupted; 2 the command or the environment is wrong.

    Example:  reground chat --corpus docs/ --model gguf/smollm2
    """
    with (
        offered_instead(named=is_model_named(context)),
        asyncio.Runner() as runner,
        _talk(order, runner, as_json=output.as_json, quiet=voice.quiet) as talk,
    ):
        code = talk.in_terminal() if sys.stdin.isatty() else talk.from_pipe()
    if code:
        raise typer.Exit(code)


@contextmanager
def _talk(order: Chat, runner: asyncio.Runner, *, as_json: bool, quiet: bool) -> Iterator[_Talk]:
    """Open the model and the documents, and close them at the end."""
    from reground.app.cli.preparing import opened_session
    from reground.app.serving.engine import Engine
    from reground.app.serving.transcript import opened
    from reground.app.session import setup_of

    setup = setup_of(order)  # wrong names are refused before a conversation's file is opened
    transcript = opened(order.conversation, resume=order.resume)
    _, err = common.consoles()
    shown = not quiet and not as_json
    stack = AsyncExitStack()
    session = runner.run(stack.enter_async_context(opened_session(setup, err, shown=shown)))
    engine = Engine(session, concurrency=1)
    stack.push_async_callback(engine.aclose)
    try:
        yield _Talk(order, engine, transcript, runner, as_json=as_json, shown=shown)
    finally:
        runner.run(stack.aclose())


class _Talk:
    """A conversation. shown: whether progress and remarks are."""

    def __init__(
        self,
        order: Chat,
        engine: Engine,
        transcript: Transcript,
        runner: asyncio.Runner,
        *,
        as_json: bool,
        shown: bool,
    ) -> None:
        self._order, self._engine, self._transcript, self._runner = order, engine, transcript, runner
        self._as_json, self._shown = as_json, shown
        self._out, self._err = common.consoles()
        self._last: Result | None = None
        self._commands: dict[str, Callable[[], None]] = {
            "/sources": self._sources,
            "/steps": self._steps,
            "/cost": self._cost,
            "/new": self._new,
            "/help": self._help,
            "/?": self._help,
        }

    def in_terminal(self) -> int:
        """Ask what is typed, until the end of the input. Ctrl-C stops a question; at the prompt it ends."""
        with suppress(ImportError):  # not on Windows
            import readline

            for question in self._transcript.asked:
                readline.add_history(question)
        self._remark(f"{next(iter(self._engine.offers))}: ask a question; /help lists the commands, Ctrl-D ends")
        self._take_up(self._heed)
        while (line := self._typed()) is not None and line not in ("/quit", "/exit"):
            self._heed(line)
        if self._transcript.asked:
            self._remark(f"kept in {self._transcript.path}; --resume takes it up")
        return 0

    def from_pipe(self) -> int:
        """Ask one question a line, and return the exit code."""
        codes = [0]

        def ask(line: str) -> None:
            result = self._asked(line) if line and not self._command(line) else None
            failed = bool(line) and result is None and not _COMMAND.match(line)
            codes.append(1 if failed else EXIT_UNGROUNDED if result is not None and not result.answered else 0)

        if isinstance(sys.stdin, TextIOWrapper):
            sys.stdin.reconfigure(errors="replace")
        self._take_up(ask)
        for line in sys.stdin:
            if line.strip() in ("/quit", "/exit"):
                break
            ask(line.strip())
        return 1 if 1 in codes else max(codes)

    def _typed(self) -> str | None:
        """The next line; None at the end."""
        try:
            if sys.stdout.isatty():
                return input("> ").strip()
            self._err.print("> ", end="")
            return input().strip()
        except (EOFError, KeyboardInterrupt):
            self._err.print()
            return None

    def _heed(self, line: str) -> None:
        """Answer a line of a terminal, or stop at Ctrl-C."""
        try:
            if line and not self._command(line):
                self._asked(line)
        except KeyboardInterrupt:
            self._transcript.stop("interrupted")
            self._say("stopped; Ctrl-C again ends")

    def _take_up(self, ask: Callable[[str], None]) -> None:
        """Say what was kept, and go on with the question that was cut short."""
        kept = self._transcript
        for notice in kept.notices:
            self._say(notice)
        if kept.turns:
            self._remark(f"taken up after {len(kept.turns) // 2} questions; the last: {kept.turns[-2].content}")
            self._remark(kept.turns[-1].content)
        if (question := kept.unanswered) is not None:
            self._remark(f"going on with: {question}")
            ask(question)

    def _asked(self, question: str) -> Result | None:
        """Ask, print and keep the answer; None if there is none. Raises KeyboardInterrupt."""
        from reground.app.cli.progress import AskProgress
        from reground.core.errors import RegroundError

        turns = self._transcript.ask(question)
        try:
            with AskProgress(self._err, shown=self._shown) as progress:
                observer = self._telling(progress.on_event)
                work = self._engine.ask("", turns, observer=observer, seed=self._order.seed, form=self._order.form)
                result = self._runner.run(work)
        except RegroundError as error:
            self._transcript.stop(str(error))
            self._failed(question, " ".join(str(error).split()))
            return None
        self._transcript.answer(result)
        self._last = result
        self._print(question, result)
        return result

    def _telling(self, observer: Observer) -> Observer:
        """An observer that, on a terminal, also prints each step when the next one begins. So the last one, which is
        the answer, is printed as the answer alone."""
        from reground.app.serving.steps import words_of

        ended: list[str] = []

        def see(event: Event) -> None:
            if event.type == "begin":
                for words in ended if self._err.is_terminal else ():
                    self._remark(words if len(words) <= _STEP else f"{words[: _STEP - 1]}…")
                ended.clear()
            elif words := words_of(event).strip():
                ended.append(words)
            observer(event)

        return see

    def _failed(self, question: str, why: str) -> None:
        from reground.app.cli.terminal import json_text, say

        self._say(f"error: {why}")
        if self._as_json:
            say(json_text({"question": question, "error": why}))

    def _print(self, question: str, result: Result) -> None:
        from reground.app.cli.display import plain, show_read, show_said, show_support
        from reground.app.cli.terminal import json_text, say

        if self._as_json:
            return say(json_text(result.to_dict()))
        if result.trajectory.question != question:
            self._out.print(plain(f"asked: {result.trajectory.question}", "dim"), soft_wrap=True)
        show_said(self._out, result)
        show_support(self._out, result)
        if not result.quotes:
            show_read(self._out, result)
        for note in (result.unchecked and f"the sentences were not checked: {result.unchecked}", _cut(result)):
            if note:
                self._out.print(plain(note, "yellow"), soft_wrap=True)
        self._out.print()

    def _command(self, line: str) -> bool:
        """Do a command; False if the line is none."""
        if not _COMMAND.match(line):
            return False
        if line not in self._commands:
            self._say(f"no command is called {line}; /help lists them")
        elif line in ("/sources", "/steps") and self._last is None:
            self._say("no answer was given since the conversation began or was taken up")
        else:
            self._commands[line]()
        return True

    def _sources(self) -> None:
        from reground.app.cli.display import show_read, show_support

        assert self._last is not None
        show_support(self._out, self._last)
        show_read(self._out, self._last)

    def _steps(self) -> None:
        from reground.app.cli.display import plain, show_steps

        assert self._last is not None
        show_steps(self._out, self._last)
        self._out.print(plain(f"trajectory: {self._last.trajectory_path}", "dim"), soft_wrap=True)

    def _cost(self) -> None:
        from reground.app.cli.display import cost_line, replayed

        if self._last is not None:
            last = cost_line(self._last.usage, self._last.seconds, replayed(self._last.trajectory))
            self._out.print(f"last answer: {last}", soft_wrap=True)
        kept = self._transcript
        self._out.print(f"conversation: {cost_line(kept.usage, kept.seconds)}", soft_wrap=True)

    def _new(self) -> None:
        self._transcript.begin_again()
        self._last = None
        self._say("what was said is forgotten; the file keeps it")

    def _help(self) -> None:
        common.say(self._out, _HELP)

    def _say(self, text: str) -> None:
        from reground.app.cli.terminal import say

        say(text, error=True)

    def _remark(self, text: str) -> None:
        from reground.app.cli.display import plain

        if self._shown:
            self._err.print(plain(text, "dim"), soft_wrap=True)


def _cut(result: Result) -> str | None:
    """What ended the answer early, in words."""
    if result.stopped is not None:
        return f"stopped early: the {result.stopped} budget ended"
    return "the limit on a reply's length cut the answer" if result.trajectory.is_cut else None


def register(cli: typer.Typer) -> None:
    """Add the command of this file."""
    cli.command()(chat)
