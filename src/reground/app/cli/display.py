"""Prints results for people: the answer, its steps, the evidence and the cost.

Text from a model or a document is printed as plain text: markup has no effect, and control characters that could move
the cursor are removed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib import parse

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions
from rich.padding import Padding
from rich.rule import Rule
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from reground.app.cli.console import harmless, human_tokens, human_usd, plural
from reground.app.runs import Result, place_of
from reground.core.answers import Citation, abstains
from reground.core.evidence import Skipped
from reground.core.language import Usage
from reground.core.trajectory import (
    ChooseStep,
    ExecuteStep,
    GenerateStep,
    NoteStep,
    RetrieveStep,
    ScoreStep,
    Step,
    Trajectory,
)
from reground.retrieval.quotes import file_of
from reground.text.alignment import changes

_LONGEST = 2000
"""Characters of an address; terminals refuse longer ones."""
_NO_LINKS = frozenset(("dumb", "unknown", "linux"))
"""Terminals (TERM) that know no links and may print them."""


def has_links(console: Console) -> bool:
    """Whether a console may be sent links: a terminal with styles, which was not asked for plain text."""
    plain = console.no_color or os.environ.get("TERM", "").lower() in _NO_LINKS
    return console.is_terminal and console.color_system is not None and not plain


def address(citation: Citation, corpus: Path | None) -> str | None:
    """Where a citation opens; None where there is nothing to open or it must not be opened."""
    url = citation.url or ""
    link = _web(url) if "://" in url else None
    file = file_of(url, corpus) if url and corpus is not None and "://" not in url else None
    if file is not None:
        link = file.as_uri()
        if citation.page:
            link += f"#page={citation.page}"
        elif citation.fragment:
            link += f"#{parse.quote(citation.fragment, safe='')}"
    return link if link is not None and len(link) <= _LONGEST else None


def _web(url: str) -> str | None:
    try:
        parts = parse.urlsplit(url)
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return None
    return parse.quote(url, safe="%/:?#[]@!$&'()*+,=~-._")


_LAID_OUT = re.compile(r"```|~~~|\t|^ {4}", re.MULTILINE)
"""A fence, an indented line or a tab: a text whose line breaks and blanks mean something."""


def plain(text: str, style: str = "") -> Text:
    """Text from a model or a document, made harmless to a terminal."""
    return Text(harmless(text), style=style)


class _AsWritten:
    """A text whose lines are not broken and whose tabs stay tabs, which rich's own rendering makes blanks."""

    def __init__(self, text: Text) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        styled = Text().join([self._text])  # its own style as one of a part, as `render` heeds no other
        yield from styled.render(console, end="\n")


def as_written(console: Console, text: Text) -> None:
    """Print a text with its own lines, however wide: a program that is copied out still runs."""
    console.print(_AsWritten(text), soft_wrap=True)


def tell(console: Console, text: Text, indent: int = 0) -> None:
    """Print prose wrapped at words in a terminal; elsewhere, where it is searched and copied, and code as written."""
    if console.is_terminal and not _LAID_OUT.search(text.plain):
        console.print(Padding(text, (0, 0, 0, indent)) if indent else text)
        return
    lines = text.split("\n", allow_blank=True)
    as_written(console, Text("\n").join(Text.assemble(" " * indent, line) for line in lines))


def show_result(console: Console, result: Result, *, steps: bool = False) -> None:
    """Print the answer, what supports it and its cost; on demand its steps."""
    head(console, "Answer", "green" if result.answered else "yellow")
    show_answer_text(console, result)
    show_support(console, result)
    if steps:
        show_steps(console, result)
    show_read(console, result)
    console.print(Rule(style="dim"))
    console.print(Text(cost_line(result.usage, result.seconds, replayed(result.trajectory)), style="dim"))
    if result.steps and not steps:
        console.print(Text("--steps shows what was drafted and what was corrected", style="dim"))
    console.print(Text(f"trajectory: {result.trajectory_path}", style="dim"), soft_wrap=True)


def head(console: Console, title: str | Text, style: str = "dim") -> None:
    """Print a line with a title."""
    console.print(Rule(title, style=style, align="left"))


def show_answer_text(console: Console, result: Result) -> None:
    """Print the answer, its unsupported sentences marked; before it whether the documents do not give it, and after it
    what was not checked and what ended it early."""
    if not result.answered:
        lead = "" if abstains(result.text) else " The model wrote:"
        tell(console, plain(f"Your documents do not say: {result.ungrounded}.{lead}", "yellow"))
    sentences = [plain(each.text, "yellow" if each.supported is False else "") for each in result.sentences]
    tell(console, Text.assemble(*sentences) if sentences else plain(result.text))
    if result.unchecked is not None:
        tell(console, plain(f"the sentences were not checked: {result.unchecked}", "yellow"))
    if result.stopped is not None:
        console.print(Text(f"stopped early: the {result.stopped} budget ended", style="yellow"))
    if result.trajectory.is_cut:
        console.print(Text("the limit on a reply's length cut the answer", style="yellow"))


def show_steps(console: Console, result: Result) -> None:
    """Print each step with its correction, query and reflection."""
    if result.steps:
        head(console, "Steps")
    for number, step in enumerate(result.steps, start=1):
        marks = "".join(f"[{marker}]" for marker in step.citations)
        same = step.draft is None or step.draft.strip() == step.text.strip()
        text = plain(step.text) if same else corrected(step.draft or "", step.text)
        tell(console, Text.assemble((f"{number}. ", "bold"), text, (f" {marks}" if marks else "", "cyan")))
        for label, words in (("asked", step.query), ("reflection", step.reflection)):
            if words:
                tell(console, plain(f"{label}: {' '.join(words.split())}", "dim"), 3)


def show_read(console: Console, result: Result) -> None:
    """Print the passages that the model read and no quote is from, those of a file in one line."""
    sources = {passage.passage_id for passage in result.quotes}
    also = [passage for passage in result.shown if passage.passage_id not in sources]
    if also:
        head(console, "Also read" if sources else "Read")
    files: dict[tuple[str, str], list[Citation]] = {}
    for passage in also:
        files.setdefault((passage.title, passage.url or passage.passage_id), []).append(passage)
    for passages in files.values():
        show_source(console, passages[0], result.corpus, [passage.marker for passage in passages])
    steps = (step for step in result.trajectory.steps if isinstance(step, RetrieveStep))
    for skipped in dict.fromkeys(each for step in steps for each in step.skipped):
        console.print(unread(skipped), soft_wrap=True)


def unread(skipped: Skipped) -> Text:
    """What a search found and could not read, in a line."""
    return plain(f"not read: {skipped.skipped}: {skipped.why}", "dim")


def show_support(console: Console, result: Result) -> None:
    """Print the quotes that support the answer, and its sentences without one."""
    quotes = result.quotes
    if quotes:
        head(console, "Supported by" if result.sentences else "Sources")
    for quote in quotes:
        show_source(console, quote, result.corpus, [quote.marker])
        if quote.quote:
            tell(console, plain(f"“{quote.quote}”", "dim"), 4)
    lacking = [each.text.strip() for each in result.sentences if each.supported is False] if result.answered else []
    for title, texts in (
        ("Not supported by what was read", lacking),
        ("Quoted, and in nothing that was read", result.misquoted),
    ):
        if texts:
            head(console, title, "yellow")
        for text in texts:
            tell(console, plain(text, "yellow"), 4)


def show_source(
    console: Console, citation: Citation, corpus: Path | None, markers: Sequence[int], indent: int = 0
) -> None:
    """Print the markers of a file's passages, its title and its place, which opens where the terminal knows links."""
    first, _, deeper = citation.heading.partition(" > ")
    heading = deeper if first == citation.title else citation.heading  # most files begin with their title
    where = plain(f"{citation.url or citation.passage_id}{place_of(citation)}", "dim")
    if has_links(console) and (target := address(citation, corpus)) is not None:
        where.stylize(Style(link=target))
    line = Text.assemble(
        " " * indent,
        ("".join(f"[{marker}]" for marker in markers) + " " if markers else "", "cyan"),
        plain(citation.title or citation.passage_id, "bold"),
        "  ",
        where,
        plain(f", {heading}" if heading else "", "dim"),
        plain(f", fetched {citation.fetched}" if citation.fetched else "", "dim"),
    )
    console.print(line, soft_wrap=True)


def corrected(draft: str, final: str) -> Text:
    """Both versions in one text, word by word: [-what was taken out-] and {+what was put in+}, as git shows them."""
    text = Text()
    for old, new, same in changes(draft, final):
        text.append_text(plain(f"[-{old}-]" if old else "", "red strike"))
        text.append_text(plain(f"{{+{new}+}}" if new else "", "green"))
        text.append_text(plain(same))
    return text


def cost_line(usage: Usage, seconds: float, replayed_calls: int = 0) -> str:
    """Calls, tokens, money and time in one line."""
    parts = [
        plural(usage.calls, "call"),
        f"{human_tokens(usage.prompt)} prompt tokens ({human_tokens(usage.cached)} cached)",
        f"{human_tokens(usage.completion)} completion tokens",
    ]
    if usage.usd:
        parts.append(human_usd(usage.usd))
    parts.append(f"{seconds:.1f} s")
    if replayed_calls:
        parts.append(f"{plural(replayed_calls, 'call')} replayed, not paid again")
    return ", ".join(parts)


def replayed(trajectory: Trajectory) -> int:
    """The number of model calls that came from the journal."""
    return sum(1 for step in trajectory.steps if isinstance(step, GenerateStep) and step.replayed)


def show_line(console: Console, number: int, trajectory: Trajectory, about: str = "") -> None:
    """Print one trajectory in one line. about: what stands behind its cost."""
    usage = trajectory.usage
    cost = f"{plural(usage.calls, 'call')}, {human_tokens(usage.tokens)} tokens"
    cost += f", {human_usd(usage.usd)}" if usage.usd else ""
    end = trajectory.failure.message if trajectory.failure else trajectory.answer.text if trajectory.answer else ""
    console.print(
        Text.assemble(
            (f"{number:4} {trajectory.id} ", "dim"),
            (f"{trajectory.method:16} ", "bold"),
            plain(short(trajectory.question, 60)),
            "  ",
            plain(short(end, 60), "red" if trajectory.failure else "green"),
            (f"  {cost}{about}", "dim"),
        ),
        soft_wrap=True,
    )


def show_trajectory(console: Console, trajectory: Trajectory) -> None:
    """Print every step of one trajectory, in the order in which the steps ended."""
    tell(console, plain(trajectory.question, "bold"))
    for step in trajectory.steps:
        head(console, f"{step.span or '/'} {step.name}  {step.elapsed:.1f} s")
        if isinstance(step, ExecuteStep):
            as_written(console, plain(step.program.source, "dim"))
        for text in _step_texts(step):
            tell(console, text)
        for skipped in step.skipped if isinstance(step, RetrieveStep) else ():
            console.print(unread(skipped), soft_wrap=True)
    head(console, "Answer", "green")
    if trajectory.failure is not None:
        tell(console, plain(f"{trajectory.failure.type}: {trajectory.failure.message}", "red"))
    if trajectory.answer is not None:
        tell(console, plain(trajectory.answer.text))
    console.print(Text(cost_line(trajectory.usage, trajectory.seconds), style="dim"))


def _step_texts(step: Step) -> Iterator[Text]:
    """What a step says: prompts and replies, a query and what it found, scores, a choice, notes."""
    if isinstance(step, GenerateStep):
        yield from (plain(f"{message.role}: {message.content}", "dim") for message in step.messages)
        for reply in step.replies:
            if reply.reasoning:
                yield plain(f"thought: {reply.reasoning}", "dim italic")
            yield plain(reply.text)
    elif isinstance(step, RetrieveStep):
        yield plain(f"query: {step.query}", "cyan")
        for passage in step.passages:
            yield plain(f"  {passage.score:.2f} {passage.id}: {short(passage.text)}", "dim")
    elif isinstance(step, ExecuteStep):
        yield plain(f"{step.execution.verdict.value}: {step.execution.detail}")
    elif isinstance(step, ScoreStep):
        yield plain(f"{step.critic}: {', '.join(f'{score:.3f}' for score in step.scores)}")
    elif isinstance(step, ChooseStep):
        yield from _choice_texts(step)
    elif isinstance(step, NoteStep):
        yield plain(", ".join(f"{key}: {value}" for key, value in step.data.items()), "yellow")


def _choice_texts(step: ChooseStep) -> Iterator[Text]:
    """What chose, and each candidate: a mark if it was chosen, its score or why it was dropped, its text."""
    yield plain(f"chosen by {step.by}{': ' if step.why else ''}{step.why}")
    for number, candidate in enumerate(step.candidates):
        worth = candidate.score if candidate.score is not None else candidate.logprob
        verdict = candidate.discarded or ("" if worth is None else f"{worth:.3f}")
        line = f"{verdict}{'  ' if verdict else ''}{short(candidate.text)}"
        yield plain(f"  > {line}") if number == step.chosen else plain(f"    {line}", "dim")


def short(text: str, most: int = 160) -> str:
    """One line of at most `most` columns."""
    line = " ".join(text.split())
    return line if cell_len(line) <= most else set_cell_size(line, most - 3).rstrip() + "..."
