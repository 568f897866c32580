"""What a campaign is made of, and how it runs.

A part is one promise and its numbered attempts, each repeatable by its number, each worth one trial or several. A run
records each attempt, and goes on where it stopped.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter


@dataclass(frozen=True)
class Trial:
    """One thing that was tried, and whether the promise held.

    kind: the row of the table that it counts in. what: how to repeat it, and what happened if the promise fell.
    """

    kind: str
    held: bool
    what: str


@dataclass(frozen=True)
class Part:
    """One promise and the attempts to break it.

    promise: what "held" means, in one line. short and long: the trials of the short and the long form.
    attempt: the trials of one number; the same number tries the same again. at_once: attempts that may run together.
    """

    name: str
    promise: str
    short: int
    long: int
    attempt: Callable[[int], Awaitable[Sequence[Trial]]]
    at_once: int = 1


RECORD = TypeAdapter(tuple[int, list[Trial]])


async def run(part: Part, count: int, folder: Path | None = None) -> list[Trial]:
    """At least `count` trials of a part. With a folder each attempt is recorded there, and those recorded count."""
    path = folder / f"{part.name}.jsonl" if folder else None
    recorded = read(path) if path else {}
    trials = [trial for found in recorded.values() for trial in found]
    numbers = (number for number in itertools.count() if number not in recorded)
    shown = time.monotonic()

    async def work() -> None:
        nonlocal shown
        while len(trials) < count:
            number = next(numbers)
            found = list(await part.attempt(number))
            trials.extend(found)
            if path is None:
                continue
            with path.open("ab") as file:
                file.write(RECORD.dump_json((number, found)) + b"\n")
            if time.monotonic() - shown > 5:
                shown = time.monotonic()
                print(f"{part.name}: {len(trials)} of {count} tried, {len(fallen(trials))} fell", flush=True)

    await asyncio.gather(*(work() for _ in range(part.at_once)))
    return trials


def read(path: Path) -> dict[int, list[Trial]]:
    """The recorded attempts. A last line that a kill cut short is removed, and its attempt runs again."""
    if not path.exists():
        return {}
    lines = [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    path.write_bytes(b"".join(lines))
    return dict(map(RECORD.validate_json, lines))


def fallen(trials: Iterable[Trial]) -> list[str]:
    """What to read about each trial in which the promise did not hold."""
    return [f"{trial.kind}: {trial.what}" for trial in trials if not trial.held]


def table(tried: Sequence[tuple[Part, Sequence[Trial]]]) -> str:
    """The campaign as a Markdown table: a row a part, then a row for each kind of trial in it."""
    rows = ["| Promise | Tried | Failed |", "|---|---:|---:|"]
    for part, trials in tried:
        rows.append(f"| **{part.promise}** | **{len(trials):,}** | **{sum(not t.held for t in trials):,}** |")
        kinds, failed = Counter(t.kind for t in trials), Counter(t.kind for t in trials if not t.held)
        rows += [f"| {kind} | {number:,} | {failed[kind]:,} |" for kind, number in sorted(kinds.items())]
    return "\n".join(rows) + "\n"
