"""Draw what `reground ask` prints as an SVG picture, readable on a light page and on a dark one.

python examples/draw_answer.py picture.svg "Which bridge is older?" corpus=docs method=rag model=gguf/smollm2

The options are those of `reground.ask`. A question that was asked before is replayed and not paid again. The pictures
in docs/tutorials/ are drawn so.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

from draw_trajectory import svg
from rich.console import Console
from rich.rule import Rule
from rich.text import Text

import reground
from reground.app.cli.display import cost_line, show_answer_text, show_read, show_steps, show_support
from reground.app.runs import Result

WIDTH = 96  # columns


def draw(result: Result, *, question: str, command: str) -> str:
    """The picture of an answer: the command, the answer, its steps, what it rests on, what it cost."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.assemble(("$ reground ask ", "dim"), (f'"{question}" ', "bold"), (command, "dim")))
    console.print(Rule("Answer", style="green" if result.answered else "yellow", align="left"))
    for show in (show_answer_text, show_support, show_steps, show_read):
        show(console, result)
    console.print(Rule(style="dim"))
    console.print(Text(cost_line(result.usage, result.seconds), style="dim"))
    return svg(console, name="answer")


if __name__ == "__main__":
    picture, question, *given = sys.argv[1:]
    options: dict[str, Any] = dict(each.split("=", 1) for each in given)
    command = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in options.items())
    drawn = draw(reground.ask(question, **options), question=question, command=command)
    Path(picture).write_text(drawn, encoding="utf-8")
