"""`reground chat`: a conversation over documents, in a terminal or from a pipe, kept in a file of lines."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Literal

import typer

from reground.app.cli.ask import is_model_named, other_models_offered
from reground.app.cli.console import consoles, json_text, note, plural, say
from reground.app.cli.display import plain, show_answer_text, show_read, show_support
from reground.app.cli.flags import ConfigFile, Json, Quiet, flattened
from reground.app.cli.progress import Progress, opened
from reground.app.options import Chat
from reground.app.serving.engine import Engine, words_of
from reground.app.session import Session, setup_of
from reground.core.errors import EXIT_UNGROUNDED, ConfigurationError, RegroundError
from reground.core.files import append_line, conversations_dir, expanded, read_lines, set_aside, without_sum
from reground.core.language import Message, Text, Value
from reground.core.run import Event

_HELP = "each line is a question; Ctrl-C stops it, /quit and Ctrl-D end"
Kind = Literal["question", "answer", "stopped"]
_STEP = 400  # characters of a step that are shown while a question is in work


@flattened(
    *("corpus", "web", "method", "model", "form", "settings", "budget__tokens", "retrieval"),
    *("conversation", "resume", "as_json", "quiet"),
)
def chat(
    context: typer.Context, options: Chat, as_json: Json = False, quiet: Quiet = False, config: ConfigFile = None
) -> None:
    """Ask question after question; a follow-up may refer to what was said before. /quit ends, and so does Ctrl-D.

    Ctrl-C stops a question that is in work. The conversation is kept: --resume takes it up, also after the process was
    killed. Questions can come from a pipe, one a line; with --json each answer is one line.

    Exit codes: 0 ended, or every question of a pipe answered; of a pipe 1 a question without an answer, 4 an answer
    that the documents do not give, 130 interrupted; 2 the command or the environment is wrong.

    Example:  reground chat --corpus docs/ --model gguf/smollm2
    """
    with other_models_offered(is_named=is_model_named(context)), asyncio.Runner() as runner:
        setup = setup_of(options)  # wrong names are refused before a conversation's file is opened
        path, lines = open_conversation(options.conversation, resume=options.resume)
        opening = opened(partial(Session.open, setup), quiet=quiet or as_json)
        engine = Engine(runner.run(opening.__aenter__()), concurrency=1)
        try:
            raise typer.Exit(_Talk(options, engine, path, lines, runner, as_json, quiet or as_json).hold())
        finally:
            runner.run(opening.__aexit__(None, None, None))


class Line(Value):
    """A line of a conversation's file: a question, its answer, or why it got none. when: ISO 8601."""

    kind: Kind
    text: Text
    when: str
    trajectory: Text | None = None


def open_conversation(path: Path | None, *, resume: bool) -> tuple[Path, list[Line]]:
    """The file of a new conversation, or of one to go on with, and its lines; without a path a new file, or the last.

    Raises ConfigurationError where there is nothing to take up, or something else in the file; and DataError.
    """
    folder = conversations_dir()
    if path is None and resume:
        path = max(folder.glob("*.jsonl"), key=lambda file: file.stat().st_mtime, default=folder / "*.jsonl")
    elif path is None:
        path = folder / f"{datetime.now():%Y-%m-%dT%H%M%S.%f}.jsonl"
    path = expanded(path)
    if resume and not path.exists():
        raise ConfigurationError(f"there is no conversation in {path}: begin one without --resume")
    written = [line for _, line in read_lines(path, "the conversation")] if path.exists() else []
    if written and not any(line.startswith(b'{"kind":"') for line in written):  # setting them aside would ruin the file
        raise ConfigurationError(f"{path} holds something else than a conversation: give --conversation another file")
    if written and not resume:
        raise ConfigurationError(f"{path} has content already: --resume takes a conversation up")
    for notice in set_aside(path, Line.model_validate_json) if written else ():
        note(notice)
    lines = read_lines(path, "the conversation") if written else ()
    return path, [Line.model_validate_json(without_sum(line)) for _, line in lines]


def _typed() -> Iterator[str]:
    """What is typed, until Ctrl-D, or Ctrl-C at the prompt."""
    with suppress(ImportError):  # not on Windows
        import readline  # noqa: F401  # lets `input` edit the line and bring back earlier ones

    with suppress(EOFError, KeyboardInterrupt):
        while True:
            yield input("> " if sys.stdout.isatty() else "")  # an answer that is redirected has no prompt beside it


@dataclass(frozen=True)
class _Talk:
    options: Chat
    engine: Engine
    path: Path
    lines: list[Line]
    runner: asyncio.Runner
    as_json: bool
    quiet: bool

    def hold(self) -> int:
        """Go on with the question that was cut short, then ask what is typed or comes in a pipe, one question a line.

        Returns the exit code. Ctrl-C stops a question of a terminal; from a pipe it ends all.
        """
        in_terminal, codes = sys.stdin.isatty(), {0}
        if in_terminal:
            self._remark(f"{next(iter(self.engine.offers))}: {_HELP}")
        for line in map(str.strip, chain(self._taken_up(), _typed() if in_terminal else sys.stdin)):
            if line in ("/quit", "/exit"):
                break
            if line[:1] == "/" and line[1:].isalpha():
                self._remark(_HELP if line == "/help" else f"there is no {line}; {_HELP}")
                continue
            try:
                codes.add(self._ask(line) if line else 0)
            except KeyboardInterrupt:
                if not in_terminal:
                    raise
                self._write("stopped", "interrupted")
                self._remark("stopped; Ctrl-C again ends")
        if in_terminal and self.lines:
            self._remark(f"kept in {self.path}; --resume takes it up")
        return 0 if in_terminal else 1 if 1 in codes else max(codes)

    def _taken_up(self) -> Iterator[str]:
        """Say what was kept; gives the question that the end of the process cut short, if there is one."""
        if turns := self._turns():
            self._remark(f"taken up after {plural(len(turns) // 2, 'question')}; the last: {turns[-2].content}")
            self._remark(turns[-1].content)
        if self.lines and self.lines[-1].kind == "question":
            self._remark(f"going on with: {self.lines[-1].text}")
            yield self.lines[-1].text

    def _turns(self) -> list[Message]:
        """The questions that were answered, and their answers."""
        turns = []
        for line, after in pairwise(self.lines):
            if (line.kind, after.kind) == ("question", "answer"):
                turns += [Message(role="user", content=line.text), Message(role="assistant", content=after.text)]
        return turns

    def _write(self, kind: Kind, text: str, trajectory: str | None = None) -> None:
        when = datetime.now(UTC).isoformat(timespec="seconds")
        self.lines.append(Line(kind=kind, text=text, when=when, trajectory=trajectory))
        append_line(self.path, self.lines[-1].model_dump_json(exclude_none=True))

    def _ask(self, question: str) -> int:
        """Ask, print and keep the answer, and return the exit code of a pipe. Raises KeyboardInterrupt."""
        turns = [*self._turns(), Message(role="user", content=question)]
        self._write("question", question)  # before it is asked, so that it can be taken up
        steps: list[str] = []

        def on_event(event: Event) -> None:
            """Show each step when the next one begins; the last one, the answer, is printed as that alone."""
            while steps and event.type == "begin":
                self._remark(steps.pop(0))
            if event.type == "end" and consoles()[1].is_terminal and (words := words_of(event).strip()):
                steps.append(words if len(words) <= _STEP else f"{words[: _STEP - 1]}…")
            progress.on_event(event)

        try:
            with Progress(visible=not self.quiet) as progress:
                seed, form, observer = self.options.seed, self.options.form, progress.observer(on_event)
                result = self.runner.run(self.engine.ask("", turns, observer=observer, seed=seed, form=form))
        except RegroundError as error:
            why = " ".join(str(error).split())
            self._write("stopped", why)
            note(f"error: {why}")
            if self.as_json:
                say(json_text({"question": question, "error": why}))
            return 1
        self._write("answer", result.text, str(result.trajectory_path))
        if self.as_json:
            say(json_text(result.to_dict()))
        else:
            console, asked = consoles()[0], result.trajectory.question
            if asked != question:
                console.print(plain(f"asked: {asked}", "dim"), soft_wrap=True)
            show_answer_text(console, result)
            show_support(console, result)
            if not result.quotes:
                show_read(console, result)
            console.print()
        return 0 if result.answered else EXIT_UNGROUNDED

    def _remark(self, text: str) -> None:
        if not self.quiet:
            consoles()[1].print(plain(text, "dim"), soft_wrap=True)
