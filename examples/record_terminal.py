"""Record commands in a terminal, and draw the recording as a picture that moves.

python examples/record_terminal.py commands.txt recording.cast    # run the commands, one a line, in a shell
python examples/record_terminal.py recording.cast picture.svg     # draw what was recorded

The recording has the format of asciinema, which plays it too. In the picture a command takes six seconds at most, and
the clock shows how long it took. Who wants less motion sees the last screen.

The picture in the README shows a new checkout on a machine that had the model already; commands.txt is beside it:

bwrap --dev-bind / / --tmpfs /home --bind CHECKOUT /home/me/reground --bind MODELS /home/me/.cache/reground/models \\
    --setenv HOME /home/me --setenv PIP_QUIET 2 --chdir /home/me/reground \\
    python3 examples/record_terminal.py docs/images/first-minutes.txt docs/images/first-minutes.cast
"""

from __future__ import annotations

import codecs
import html
import json
import os
import pty
import re
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, TypeVar

from rich.ansi import AnsiDecoder
from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import MONOKAI

COLUMNS, ROWS = 88, 30
READY = "\x1b]133;B\x07"  # how a terminal is told that a prompt ends and a command may begin; it shows nothing
LONGEST = 6.0  # seconds that a command takes in the picture
FRAMES = 4  # the most of a second
OFTEN = 1.0  # seconds between two events that a recording keeps of one line
CELL, LINE, MARGIN = 8.4, 18, 14  # pixels
PICTURE = """\
<svg viewBox="0 0 {width:.0f} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<title>What a terminal showed</title>
<style>
text {{ font: 14px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre; fill: {colour} }}
.once {{ visibility: hidden }}
g {{ animation: {seconds:.1f}s step-end infinite }}
@media (prefers-reduced-motion: reduce) {{ g {{ animation: none }} }}
{moves}
</style>
<rect width="100%" height="100%" rx="8" fill="{background}"/>
<svg y="{top}" width="100%" height="{inside}">
<g transform="translate(0 {scrolled})" style="animation-name: scroll">
{lines}
</g>
</svg>
{clock}
</svg>
"""
Event = tuple[float, str, str]  # seconds, "o" for output, what was written
Value = TypeVar("Value")
_MOVES = re.compile(r"\r|\n|\x1b\[2K|\x1b\[\d*A|\x1b\[\?25[hl]|\x1b\]133;B\x07")


class Frame(NamedTuple):
    """What stands in the terminal. at: seconds of the picture; clock: seconds since the recording began."""

    at: float
    clock: float
    rows: tuple[str, ...]


def record(commands: Sequence[str], path: Path) -> None:
    """Run commands in one shell, each when the one before has ended, and write what the terminal shows."""
    prompt = rf"\n\[\e[1;32m\]$\[\e[0m\] \[{READY}\]"
    shell = {"PS1": prompt, "TERM": "xterm-256color", "VIRTUAL_ENV_DISABLE_PROMPT": "1"}
    process, terminal = pty.fork()
    if process == 0:
        os.execvpe("bash", ["bash", "--noprofile", "--norc", "--noediting"], {**os.environ, **shell})
    termios.tcsetwinsize(terminal, (ROWS, COLUMNS))
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    began, tail, left = time.monotonic(), "", [*commands]
    events: list[Event] = []
    while True:
        said = decode(os.read(terminal, 1 << 16))
        events.append((round(time.monotonic() - began, 3), "o", said))
        tail = tail[-len(READY) :] + said
        if READY in tail:
            if not left:
                break
            tail = ""
            os.write(terminal, f"{left.pop(0)}\n".encode())
    os.close(terminal)
    os.waitpid(process, 0)
    lines = [{"version": 2, "width": COLUMNS, "height": ROWS}, *thinned(events)]
    path.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines), encoding="utf-8")


def thinned(events: Sequence[Event]) -> list[Event]:
    """The events without lines that soon were written over, as those of a bar of progress are."""
    kept: list[Event] = []
    for event in events:
        if len(kept) > 1 and event[0] - kept[-2][0] < OFTEN and all(_is_again(each[2]) for each in (event, kept[-1])):
            kept.pop()
        kept.append(event)
    return kept


def _is_again(said: str) -> bool:
    """Whether it is one line, in the place of the line before."""
    return said.startswith("\r\x1b[2K") and "\n" not in said and "\x1b[1A" not in said


def draw(recording: str) -> str:
    """The picture of a recording, given as the text of its file."""
    frames = [*_frames([json.loads(line) for line in recording.splitlines()[1:]])]
    end = frames[-1].at
    moves: list[str] = []

    def shown(begin: float, until: float, what: str) -> str:
        """A part of the picture that stands in it from one second to another."""
        hides = f"{100 * until / end:.2f}% {{ visibility: hidden }} " if until < end else ""
        moves.append(f"{{ 0% {{ visibility: hidden }} {100 * begin / end:.2f}% {{ visibility: visible }} {hides}}}")
        kind = ' class="once"' if hides else ""
        return f'<g{kind} style="animation-name: m{len(moves) - 1}">{what}</g>'

    lines = [
        shown(begin, until, line)
        for number in range(max(len(frame.rows) for frame in frames))
        for begin, until, text in _spans(frames, ["".join(frame.rows[number : number + 1]) for frame in frames])
        if (line := _line(text, number))
    ]
    width = COLUMNS * CELL + 2 * MARGIN
    place = f'x="{width - MARGIN:.1f}" y="20" text-anchor="end" opacity="0.6"'
    clock = [
        shown(begin, until, f"<text {place}>{seconds // 60}:{seconds % 60:02}</text>")
        for begin, until, seconds in _spans(frames, [int(frame.clock) for frame in frames])
    ]
    scrolled = [*_spans(frames, [-LINE * max(0, len(frame.rows) - ROWS) for frame in frames])]
    steps = [f"{100 * begin / end:.2f}% {{ transform: translateY({by}px) }}" for begin, _, by in scrolled]
    named = [f"@keyframes m{number} {move}" for number, move in enumerate(moves)]
    return PICTURE.format(
        width=width,
        height=ROWS * LINE + 2 * MARGIN + LINE,
        seconds=end,
        colour=MONOKAI.foreground_color.hex,
        background=MONOKAI.background_color.hex,
        moves="\n".join([*named, f"@keyframes scroll {{ {' '.join(steps)} }}"]),
        top=MARGIN + LINE,
        inside=ROWS * LINE,
        scrolled=scrolled[-1][2],
        lines="\n".join(lines),
        clock="\n".join(clock),
    )


class _Screen:
    """The lines that a program has written. Of what moves a cursor it knows what rich writes: up, back, and erased."""

    def __init__(self) -> None:
        self.rows, self.row, self._over = [""], 0, False

    def write(self, text: str) -> None:
        for part in re.split(f"({_MOVES.pattern})", text):
            if part == "\n":
                self.row, self._over = self.row + 1, False
                self.rows += [""] * (self.row + 1 - len(self.rows))
            elif part == "\r":
                self._over = True  # what comes now stands in the place of the line
            elif part == "\x1b[2K":
                self.rows[self.row] = ""
            elif _MOVES.fullmatch(part):
                self.row -= int(part[2:-1] or 1) if part.endswith("A") else 0
            elif part:
                self.rows[self.row] = part if self._over else self.rows[self.row] + part
                self._over = False


def _frames(events: Sequence[Event]) -> Iterator[Frame]:
    """What the terminal shows, time after time; the last one is the end.

    A command that took long is shown faster, and what it printed stays to be read.
    """
    screen = _Screen()
    ends = [clock for clock, _, said in events if READY in said] + [events[-1][0]]
    at, begin, printed = 0.0, 0.0, 0
    shown, waits = -1.0, Frame(0.0, 0.0, ())
    for clock, _, said in events:
        now = at + (clock - begin) * min(1.0, LONGEST / max(ends[0] - begin, 0.01))
        if now - shown >= 1 / FRAMES:
            shown = max(waits.at, shown + 1 / FRAMES)
            yield waits._replace(at=shown)
        screen.write(said)
        waits = Frame(now, clock, (*(part for row in screen.rows[: screen.row + 1] for part in _wrapped(row)),))
        if READY in said:
            ends.pop(0)
            at, begin = now + min(6.0, 1.0 + 0.2 * (screen.row - printed)), clock
            printed = screen.row
    yield waits
    yield Frame(at + 3.0, waits.clock, ())


def _wrapped(row: str) -> list[str]:
    """A line as a terminal breaks it; one with colours is taken to fit."""
    return [row[at : at + COLUMNS] for at in range(0, max(1, len(row)), COLUMNS)] if "\x1b" not in row else [row]


def _spans(frames: Sequence[Frame], values: Sequence[Value]) -> Iterator[tuple[float, float, Value]]:
    """From when to when each value stands. values: one for each frame; that of the last, the end, is left out."""
    told = zip(frames[:-1], values, strict=False)
    firsts = [(next(same)[0].at, value) for value, same in groupby(told, key=lambda each: each[1])]
    ends = [*(begin for begin, _ in firsts[1:]), frames[-1].at]
    for (begin, value), end in zip(firsts, ends, strict=True):
        yield begin, end, value


def _line(text: str, number: int) -> str:
    """A line of the terminal as texts of the picture."""
    drawn, column = [], 0
    for segment in AnsiDecoder().decode_line(text).render(Console(width=COLUMNS)):
        cells = cell_len(segment.text)
        if segment.text.strip():
            place = f'x="{MARGIN + column * CELL:.1f}" y="{number * LINE + LINE - 4}" textLength="{cells * CELL:.1f}"'
            drawn.append(f"<text {place}{_look(segment.style or Style())}>{html.escape(segment.text)}</text>")
        column += cells
    return "".join(drawn)


def _look(style: Style) -> str:
    coloured = style.color is not None and not style.color.is_default
    return "".join(
        (
            f' style="fill: {style.color.get_truecolor(MONOKAI).hex}"' if style.color and coloured else "",
            ' font-weight="bold"' if style.bold else "",
            ' opacity="0.6"' if style.dim else "",
        )
    )


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    told = source.read_text(encoding="utf-8")
    if source.suffix == ".cast":
        target.write_text(draw(told), encoding="utf-8")
    else:
        record(told.splitlines(), target)
