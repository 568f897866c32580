"""Draw a recorded trajectory as an SVG picture, readable on a light page and on a dark one.

python examples/draw_trajectory.py TRACE.jsonl picture.svg

The trace is what `reground ask --trace TRACE.jsonl` writes; its first trajectory is drawn. The picture in the README is
drawn from docs/images/trajectory.jsonl.
"""

from __future__ import annotations

import html
import io
import re
import sys
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.terminal_theme import MONOKAI
from rich.text import Text

from reground.core.trajectory import GenerateStep, NoteStep, RetrieveStep, Step, Trajectory, read_trajectories

WIDTH = 96  # columns
LONGEST = 230  # characters of a reply or a passage
QUIET = ("span", "scaled")  # notes that only open a span or repeat settings
_TEXT = re.compile(r'textLength="(?P<length>[\d.]+)"(?P<rest>[^>]*)>(?P<said>[^<]+)<')
# rich's own frame without its web font: a picture in a page may load nothing
FRAME = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<title>{unique_id}</title>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def draw(trajectory: Trajectory) -> str:
    """The picture of one trajectory: the question, every effect in its order, the answer, what it cost."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text(trajectory.question, style="bold"))
    table = Table.grid(padding=(0, 2), expand=True)
    table.add_column(width=8, style="cyan")
    table.add_column(ratio=1)
    table.add_column(justify="right", style="dim", no_wrap=True)
    span = ""
    for step in trajectory.steps:
        if (row := _row(step)) is None:
            continue
        if step.span != span:
            table.add_row()
        span = step.span
        table.add_row(*row)
    table.add_row()
    answer = trajectory.answer
    table.add_row("answer", Text(answer.text if answer else "none", style="bold green"), "")
    for word, sources in _sources(trajectory):
        table.add_row(Text(word, style="magenta"), Text(sources, style="dim"), "")
    console.print()
    console.print(table)
    usage = trajectory.usage
    console.print()
    said = f"{trajectory.method}: {usage.calls} calls, {usage.prompt} prompt + {usage.completion} completion tokens"
    console.print(Text(said, style="dim"))
    return svg(console, name="trajectory")


def svg(console: Console, *, name: str) -> str:
    """What a console has recorded as a picture. rich takes Chinese and Japanese characters for one column wide."""
    drawn = console.export_svg(title="reground", theme=MONOKAI, code_format=FRAME, unique_id=name)
    return _TEXT.sub(_widened, drawn)


def _widened(text: re.Match[str]) -> str:
    said = html.unescape(text["said"])
    if cell_len(said) == len(said):
        return text[0]
    return f'textLength="{float(text["length"]) * cell_len(said) / len(said):.1f}"{text["rest"]}>{text["said"]}<'


def _row(step: Step) -> tuple[Text | str, Text, str] | None:
    if isinstance(step, GenerateStep):
        reply = step.replies[0]
        return step.name, Text(_short(reply.text)), f"{reply.usage.prompt} + {reply.usage.completion}"
    if isinstance(step, RetrieveStep):
        return Text("found", style="magenta"), Text(_found(step) or "nothing", style="dim"), ""
    note = isinstance(step, NoteStep) and step.name not in QUIET
    return (Text("note", style="yellow"), Text(step.name, style="yellow"), "") if note else None


def _sources(trajectory: Trajectory) -> list[tuple[str, str]]:
    answer = trajectory.answer
    cited = answer.citations if answer else ()
    read = [source for source in answer.shown if source not in cited] if answer else []
    named = (
        (word, " · ".join(f"[{source.marker}] {source.title or source.passage_id}" for source in sources))
        for word, sources in (("cited", cited), ("read", read))
    )
    return [(word, sources) for word, sources in named if sources]


def _found(step: RetrieveStep) -> str:
    """What one passage says, or what several are called."""
    if len(step.passages) == 1:
        return f"{step.passages[0].title}: {_short(step.passages[0].text)}"
    return " · ".join(passage.title or passage.id for passage in step.passages)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 3].rstrip() + "..."


if __name__ == "__main__":
    trace, picture = map(Path, sys.argv[1:])
    picture.write_text(draw(next(read_trajectories(trace))), encoding="utf-8")
