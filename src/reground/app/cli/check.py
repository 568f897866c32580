"""`reground check`: which sentences of an answer the documents support, contradict or do not have."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from reground.app.checking import CheckResult, checked, mend, setup_of
from reground.app.cli.console import consoles, json_text, print_json, say
from reground.app.cli.display import address, as_written, corrected, cost_line, head, plain, show_source, tell
from reground.app.cli.flags import ConfigFile, Json, Quiet, flattened
from reground.app.cli.progress import Progress
from reground.app.mending import Mending, Outcome
from reground.app.options import CheckFiles
from reground.app.session import Session
from reground.core.errors import EXIT_UNGROUNDED, ConfigurationError, DataError
from reground.core.files import expanded, regular, replace_lines, replaceable, writing
from reground.evaluation.data import fields, read_values
from reground.retrieval.encodings import Unreadable, decode
from reground.support.verdicts import MOST_CHARACTERS, Checked, Verdict

_STYLES = {Verdict.SUPPORTED: "green", Verdict.CONTRADICTED: "red"}
_COLUMNS = [verdict for verdict in Verdict if verdict != Verdict.NO_CLAIM]
_LARGEST = 8 * MOST_CHARACTERS
"""Bytes of a file that are read: no answer that is checked has more."""

_LINE = fields(**dict.fromkeys(("id", "text", "answer", "question"), (str | None, None)))

Answer = tuple[str, str, str | None]
"""The name of an answer, its text, and its question if that is known."""
Results = Sequence[tuple[str, CheckResult]]
"""Answers that were checked, by their names."""


@flattened(
    *("files", "corpus", "question", "text", "answers", "fail_under", "html"),
    *("mend", "unsupported", "method", "model", "budget__tokens", "out"),
    *("support", "retrieval", "as_json", "quiet"),
)
def check(options: CheckFiles, as_json: Json = False, quiet: Quiet = False, config: ConfigFile = None) -> None:
    """Check an answer that anybody wrote: which sentences your documents support, contradict or do not have.

    No model is asked, and the same answer over the same documents gets the same verdicts; --mend lets one revise what
    fell, and the same command resumes or replays its work. Exit codes: 0 all claims are supported (or the share of
    --fail-under), 4 they are not, 2 the command or the environment is wrong.

    Example:  reground check answer.md --corpus docs/   ·   reground check --text "It is 516 m long." -c docs/
    """
    _refuse(options, as_json=as_json)
    results = asyncio.run(_checked(list(_answers(options)), options, quiet=quiet or as_json))
    if options.html is not None:
        from reground.view.server import checked as page

        replace_lines(expanded(options.html), page([_page_data(name, result) for name, result in results]))
    if options.out is not None and (mended := results[0][1].mended) is not None:
        replace_lines(expanded(options.out), [mended.text.encode()])
    _print(results, options, as_json=as_json, quiet=quiet)
    if not all(result.passes(options.fail_under) for _, result in results):
        raise typer.Exit(EXIT_UNGROUNDED)


def _refuse(options: CheckFiles, *, as_json: bool) -> None:
    """Raise ConfigurationError for options that do not go together, and StorageError for what cannot be written."""
    several = options.answers is not None or len(options.files or []) > 1
    if options.fail_under > 1:
        raise ConfigurationError(f"--fail-under is a share from 0 to 1, not {options.fail_under:g}")
    if options.mend and several and (options.out is not None or not as_json):
        raise ConfigurationError("mend one answer at a time, or print all with --json")
    if options.out is not None and not options.mend:
        raise ConfigurationError("--out is the file for a mended answer: add --mend")
    for path in map(expanded, filter(None, (options.html, options.out))):
        with writing(replaceable(path)):
            TemporaryFile(dir=path.parent).close()


def _print(results: Results, options: CheckFiles, *, as_json: bool, quiet: bool) -> None:
    name, result = results[0]
    if as_json and options.answers is None and len(results) == 1:
        print_json(result.to_dict(), indent=2)
    elif as_json:
        for name, result in results:
            say(json_text({"id": name, "passes": result.passes(options.fail_under), **result.to_dict()}))
    elif result.mended is not None:
        _show_mended(result.mended, result, is_printed=options.out is None, quiet=quiet)
    elif len(results) == 1:
        _show(consoles()[0], result, result.claims)
    else:
        _show_all(consoles()[0], results, options.fail_under)


async def _checked(answers: Sequence[Answer], options: CheckFiles, *, quiet: bool) -> Results:
    results = []
    with Progress(visible=not quiet) as progress:
        async with Session.open(setup_of(options), progress.opening) as session:
            for number, (name, text, question) in enumerate(answers, start=1):

                def on_claim(done: int, total: int, number: int = number) -> None:
                    progress.show(f"answer {number} of {len(answers)}: {done} of {total} claims")

                try:
                    result = await checked(session, text, question=question, k=options.k, progress=on_claim)
                except ConfigurationError as error:
                    raise ConfigurationError(f"{name}: {error}") from error
                if options.mend:
                    result = await mend(session, result, options, progress.observer(progress.on_event))
                results.append((name, result))
    return results


def _answers(options: CheckFiles) -> Iterator[Answer]:
    """The answers that the options name. Raises ConfigurationError, DataError."""
    if sum(map(bool, (options.files, options.text is not None, options.answers))) > 1:
        raise ConfigurationError("give the answer as files, as --text or in --answers, and not in two ways")
    if options.answers is not None:
        yield from _lines(expanded(options.answers), options.question)
    elif options.text is not None:
        yield "--text", options.text, options.question
    else:
        for path in options.files or [Path("-")]:
            yield str(path), _read(path), options.question


def _read(path: Path) -> str:
    """The text of a file, of standard input for "-". Raises DataError, ConfigurationError."""
    try:
        if str(path) == "-" and sys.stdin.isatty():
            raise ConfigurationError("say what to check: a file with the answer, or --text")
        from_shell = path.is_fifo() and path.is_relative_to("/dev")  # <(command), which has a writer
        given = path if from_shell else regular(path)
        with nullcontext(sys.stdin.buffer) if str(path) == "-" else given.open("rb") as file:
            return decode(file.read(_LARGEST)).text
    except Unreadable as error:
        raise DataError(f"{error}; give the answer as text", path=path) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path=path) from None


def _lines(path: Path, question: str | None) -> Iterator[Answer]:
    """The answers of a file of JSON lines. Raises DataError, naming the line if one is wrong."""
    number = 0
    for number, line in read_values(path, _LINE):
        text = line.answer if line.text is None else line.text
        if text is None:
            raise DataError("has neither text nor answer", path=path, line=number)
        yield line.id or str(number), text, line.question or question
    if not number:
        raise DataError("has no answers", path=path)


def _page_data(name: str, result: CheckResult) -> dict[str, Any]:
    """An answer as the page shows it: its quotes without numbers, and with links."""
    data = result.to_dict() | {"title": result.question or name, "summary": result.summary}
    for entry, sentence in zip(data["sentences"], result.sentences, strict=True):
        for quote, citation in zip(entry["evidence"], sentence.evidence, strict=True):
            quote |= {"marker": None, "link": address(citation, result.corpus)}
    return data


def _show(console: Console, result: CheckResult, claims: Sequence[Checked]) -> None:
    """Print claims, each with its verdict and its evidence, and the summary of the answer."""
    for claim in claims:
        style = _STYLES.get(claim.verdict, "yellow")
        tell(console, Text.assemble((f"{claim.verdict}: ", f"bold {style}"), plain(" ".join(claim.text.split()))))
        if claim.difference is not None:
            answer, documents = claim.difference
            tell(console, plain(f"the answer says {answer}, the documents say {documents}", style), 4)
        if claim.verdict == Verdict.ELSEWHERE:
            tell(console, plain(f"it cites {', '.join(claim.cites)}, and it stands here:", style), 4)
        for quote in claim.evidence:
            tell(console, plain(f"“{quote.quote}”", "dim"), 4)
            show_source(console, quote, result.corpus, (), 4)
    console.print(plain(result.summary, "bold"), soft_wrap=True)


def _show_mended(mended: Mending, result: CheckResult, *, is_printed: bool, quiet: bool) -> None:
    """Print the mended text, unless it is in a file; and say what changed, word by word, on the other stream."""
    output, notes = consoles()
    if is_printed:
        as_written(output, plain(mended.text.removesuffix("\n")))
    else:
        notes = output
    if quiet:
        return
    for part in mended.parts:
        if part.outcome != Outcome.KEPT or part.why:
            changed = corrected(part.before.text.strip(), part.text.strip())
            style = f"bold {_STYLES.get(part.before.verdict, 'yellow')}"
            tell(notes, Text.assemble((f"{part.outcome}: ", style), changed))
            for quote in part.source:
                tell(notes, plain(f"“{quote.quote}”", "dim"), 4)
                show_source(notes, quote, result.corpus, (), 4)
    if mended.stopped is not None:
        tell(notes, plain(f"the {mended.stopped} budget ended the work early; what is mended so far stands", "yellow"))
    outcomes = Counter(part.outcome.value for part in mended.parts if part.before.statement)
    notes.print(plain(", ".join(f"{count} {outcome}" for outcome, count in outcomes.items()), "bold"))
    notes.print(Text(cost_line(mended.usage, mended.seconds), style="dim"))


def _show_all(console: Console, results: Results, least: float) -> None:
    """Print the claims that fell, answer by answer, and a table of all answers."""
    table = Table("answer", "claims", *_COLUMNS, "share", box=None, padding=(0, 2, 0, 0))
    for column in table.columns[1:]:
        column.justify = "right"
    for name, result in results:
        share = "-" if result.share is None else f"{result.share:.2f}"
        counts = (str(result.counts[verdict]) for verdict in _COLUMNS)
        table.add_row(plain(name), str(len(result.claims)), *counts, share)
        if not result.passes():
            head(console, plain(name))
            _show(console, result, result.fallen)
    head(console, "All answers")
    console.print(table)
    passed = sum(result.passes(least) for _, result in results)
    console.print(f"{passed} of {len(results)} answers pass", style="bold")
