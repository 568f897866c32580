"""Faults of the world: servers, disks, files and surroundings. A command ends with one clear line, and later goes on."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import re
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from reground.core import errors
from reground.evaluation.results import read_run
from tests.campaign import jobs, kills
from tests.campaign.commands import environment, run
from tests.campaign.replies import SERVER, BadServer, Fault, serving
from tests.campaign.runner import Part, Trial
from tests.campaign.surroundings import SURROUNDINGS
from tests.killing import recorded

_OURS = {name for name, kind in vars(errors).items() if isinstance(kind, type)}
_PATIENCE = "attempts = 2\ntimeout = 2.0\n"


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="campaign-") as name:
        yield Path(name)


def _some(kinds: Iterable[str], number: int, count: int) -> list[str]:
    """As many kinds as are tried in one attempt; all of them have their turn."""
    return list(itertools.islice(itertools.cycle(kinds), number * count, (number + 1) * count))


# --- servers of models


async def _models(number: int, chance: random.Random) -> Sequence[Trial]:
    """An evaluation in which every question meets a fault of its own, and then the same with a healed server."""
    kinds = _some(SERVER, number, 16)
    faults = [SERVER[kind](chance) for kind in kinds]
    broken = True

    def choose(body: dict[str, Any]) -> Fault | None:
        return faults[_book(body)] if broken else None

    server = BadServer(choose)
    words = ("eval", "--task", "bamboogle", "--data", "data", "--model", "openai/mock", "-m", "direct", "-q")
    with _folder() as folder:
        jobs.questions(folder)
        (folder / "reground.toml").write_text(_PATIENCE)
        async with serving(server):
            words = (*words, "--base-url", server.url, "-j", "16", "--out", "out")
            first = await asyncio.to_thread(run, words, folder, environment(folder))
            flaws = first.flaws({0, 3})
            before = {} if flaws else read_run(folder / "out").records()
            asked = server.counts.copy()
            broken = False
            second = await asyncio.to_thread(run, (*words, "--retry-failed"), folder, environment(folder))
            flaws += [f"healed: {flaw}" for flaw in second.flaws({0})]
            after = {} if flaws else read_run(folder / "out").records()
    trials = []
    for index, kind in enumerate(kinds):
        own = list(flaws) if flaws else _flaws_of_a_question(before[f"b{index}~0"], after[f"b{index}~0"])
        again = [text for text in server.counts if _book_in(text) == index and server.counts[text] > 1 and asked[text]]
        own += ["what was answered was asked again"] if again else []
        trials.append(Trial(f"model server: {kind}", not own, _what(number, f"{kind}, question {index}", own)))
    return trials


def _book(body: dict[str, Any]) -> int:
    return _book_in(str(body["messages"][-1]["content"]))


def _book_in(text: str) -> int:
    number = text.split("book ")[-1].split("?")[0]
    return int(number) if number.isdecimal() else -1


def _flaws_of_a_question(before: Any, after: Any) -> list[str]:
    failure = before.failure
    flaws = [f"after the fault: {after.failure}"] if after.failure is not None else []
    if failure is not None:
        if failure.type not in _OURS:
            flaws.append(f"{failure.type}: {failure.message[:300]}")
        if "\n" in failure.message or len(failure.message) > 1000:
            flaws.append(f"not one clear line: {failure.message[:1000]!r}")
    return flaws


# --- damaged files

_OUT_OF_PLACE = (".lock", ".png", ".svg", ".md", ".shm")


def files_of(folder: Path) -> list[Path]:
    """What commands keep below a folder and read again."""
    kept = [path for name in ("out", "home", "idx") for path in (folder / name).rglob("*")]
    kept += [*folder.glob("cache.db*"), *folder.glob("trace.jsonl")]
    return sorted(path for path in kept if path.is_file() and path.suffix not in _OUT_OF_PLACE and path.name != "lock")


def _flipped(data: bytes, chance: random.Random, times: int = 1) -> bytes:
    changed = bytearray(data)
    for _ in range(times):
        changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _odd_number(data: bytes, chance: random.Random) -> bytes:
    numbers = list(re.finditer(rb"(?<=: )\d+|(?<=:)\d+", data))
    if not numbers:
        return data + b"garbage"
    found = chance.choice(numbers)
    odd = chance.choice((b"NaN", b"-Infinity", b"1e400", b"null", b'"x"', b"-1", b"9" * 5000))
    return data[: found.start()] + odd + data[found.end() :]


def _cut(data: bytes, chance: random.Random, filling: bytes = b"") -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + filling * (len(data) - at)


def _inserted(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + chance.choice((b"\xed\xa0\x80", b"\\ud800", b"\xf8\x88")) + data[at:]


_ENDS = (b"\x00" * 100, b"garbage", b'{"half": ', b"\n\n\n", b"\xff\xfe\n", b"{}\n", b"null\n")
_DEEP = (b"[" * 100_000, b'{"a":' * 100_000)
WAYS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "a bit flipped": _flipped,
    "many bits flipped": lambda data, chance: _flipped(data, chance, 50),
    "cut": _cut,
    "garbage appended": lambda data, chance: data + chance.choice(_ENDS),
    "zeros from somewhere on": lambda data, chance: _cut(data, chance, b"\x00"),
    "half a surrogate pair": _inserted,
    "nested deeply": lambda data, chance: chance.choice(_DEEP) + chance.choice((b"", b"\n" + data)),
    "a number that is none": _odd_number,
    "emptied": lambda data, chance: b"",
    "noise": lambda data, chance: chance.randbytes(max(1, len(data))),
}


async def _damage(number: int, chance: random.Random) -> Sequence[Trial]:
    """A finished or killed command, one of whose files is damaged: it is mended or refused, and nothing else is harmed."""
    job = chance.choice([job for job in kills.JOBS if "pull" not in job.command])
    before = await kills.undisturbed(job)
    with _folder() as folder:
        await asyncio.to_thread(job.prepare, folder)
        async with kills.world() as here:
            if before.replies and chance.random() < 0.5:
                await kills.killed(job, folder, here, before, kills.signal.SIGKILL, chance)
            else:
                await kills.finish(job, folder, here)
            file = chance.choice(files_of(folder) or [folder / "out"])
            how = chance.choice(list(WAYS))
            name = file.relative_to(folder)
            if not file.is_file() or not (data := file.read_bytes()):
                return []
            file.write_bytes(WAYS[how](data, chance))
            kept = {key: here.bell.counts[key] for key in recorded_elsewhere(folder, file) if before.counts[key] == 1}
            words = tuple(word.replace("{url}", here.url) for word in job.command)
            done = await asyncio.to_thread(run, words, folder, environment(folder))
            flaws = done.flaws({2, before.code})
            if done.code == 2:
                file.write_bytes(data)
                again = await asyncio.to_thread(run, words, folder, environment(folder))
                flaws += [f"put back: {flaw}" for flaw in again.flaws({before.code})]
            flaws += [f"{key} was recorded and asked again" for key in kept if here.bell.counts[key] != kept[key]]
        flaws += await asyncio.to_thread(kills.flaws_of_the_outcome, job, folder, before)
    kind = f"damaged {_sort_of(name)}"
    return [Trial(kind, not flaws, _what(number, f"{name} {how}, {job.name}, exit code {done.code}", flaws))]


def recorded_elsewhere(folder: Path, damaged: Path) -> list[str]:
    """The keys of recorded calls, where the damaged file is no journal."""
    return [] if "journal" in damaged.name else list(recorded(folder))


def _sort_of(name: Path) -> str:
    sort = {"idx": "index", "trace.jsonl": "trajectory"}.get(name.parts[0])
    if sort is None and "indexes" in name.parts:
        sort = "index"
    for word in ("journal", "cache", "trajector", "scores", "trees"):
        if sort is None and word in str(name):
            sort = "trajectory" if word == "trajector" else word
    return sort or "JSON file"


# --- surroundings


async def _surroundings(number: int, chance: random.Random) -> Sequence[Trial]:
    """A command where something around it is odd, and then the same command where all is well."""
    kind = chance.choice(list(SURROUNDINGS))
    with _folder() as folder:
        jobs.questions(folder)
        async with serving(BadServer()) as server:
            flaws = await asyncio.to_thread(SURROUNDINGS[kind], folder, server.url, chance)
    return [Trial(kind, not flaws, _what(number, kind, flaws))]


Family = Callable[[int, random.Random], Awaitable[Sequence[Trial]]]
_FAMILIES: tuple[Family, ...] = (_models, _damage, _surroundings, _damage)


def _what(number: int, tried: str, flaws: Sequence[str]) -> str:
    return f"faults {number}: {tried}" + "".join(f"; {flaw}" for flaw in flaws)


async def attempt(number: int) -> Sequence[Trial]:
    """One fault or several of one family."""
    return await _FAMILIES[number % len(_FAMILIES)](number // len(_FAMILIES), random.Random(number))


PART = Part(
    name="faults",
    promise="A fault of the surroundings ends in one clear line, in bounded time and memory, and no record is lost",
    short=32,
    long=600,
    attempt=attempt,
    at_once=2,
)
