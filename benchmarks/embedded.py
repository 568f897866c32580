"""The engine of `gguf/` models in this process, with its own choice of threads and slots and with others, and servers.

The servers are the same llama.cpp as processes, one a core, pinned to it, of one thread each: what a careful user would
start for many questions. All answer the demonstration's questions with RAG, three passages, or with RAT or RaR as in
`benchmarks.real`, which write more. Every measurement is a process of its own with an empty cache; the ways alternate,
and a way's seconds are the median of its rounds. The table says how many tokens were written, which differ where calls
decoded together or by other threads differ in the last bit of a number.

    python -m benchmarks.embedded [--model smollm2] [--method RAG] [--questions 8] [--flights 1,8] [--rounds 3]
        [--ways "own choice,servers"] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.llama_server import Settings, serving, weights
from benchmarks.real import demo_questions, methods
from reground.core.answers import PHRASE
from reground.core.errors import ConfigurationError, MissingExtra
from reground.core.evidence import Retriever
from reground.core.language import LanguageModel
from reground.core.method import Method
from reground.core.run import Run
from reground.core.solve import solve
from reground.demo import corpus_path
from reground.methods.rag import RAG
from reground.models import gguf, llamacpp
from reground.models._llama import physical_cores
from reground.models.gguf import SLOTS
from reground.models.options import ModelOptions
from reground.retrieval.index import build_index, open_index

CONTEXT = 4096
SERVERS = "servers"


@dataclass(frozen=True)
class Way:
    """How the model is run. threads, slots: None leaves the engine's choice. more: variables of its environment."""

    name: str
    threads: int | None = None
    slots: int | None = None
    lookup: bool = False
    more: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """A way, and how fast it was. Seconds are those of one question. over_own: its seconds over the own choice's."""

    way: str
    in_flight: int
    questions: int
    wall_s: float
    over_own: float
    cpu_s: float
    written: int


class Taken(NamedTuple):
    """What all questions took: seconds of the clock and of the processors, and the tokens written."""

    wall: float
    cpu: float
    written: int


def ways(cores: int) -> list[Way]:
    """The engine's own choice first."""
    return [
        Way("own choice"),
        Way("one thread", threads=1),
        Way(f"{cores} threads for all", threads=cores),
        Way(f"{2 * SLOTS} slots", slots=2 * SLOTS),
        Way("lookup", lookup=True),
        Way(f"{cores} threads and lookup", threads=cores, lookup=True),
        Way("spinning threads", more={"OMP_WAIT_POLICY": "active"}),
        Way(SERVERS),
    ]


@contextlib.asynccontextmanager
async def models(way: Way, file: Path, flight: int) -> AsyncIterator[list[LanguageModel]]:
    """What answers: one engine, or a server a core."""
    async with contextlib.AsyncExitStack() as stack:
        if way.name != SERVERS:
            options = ModelOptions(threads=way.threads, slots=way.slots, context=CONTEXT, lookup=way.lookup)
            engine = gguf.create(str(file), options)
            stack.push_async_callback(engine.aclose)
            yield [engine]
            return
        cores, found = _cores(), list[LanguageModel]()
        slots = -(-flight // len(cores))
        for core in cores:
            served = stack.enter_context(serving(Settings(file, slots, CONTEXT, threads=1, core=core)))
            client = llamacpp.create("any", ModelOptions(base_url=served.url, timeout=600.0))
            stack.push_async_callback(client.aclose)
            found.append(client)
        yield found


def _cores() -> list[int]:
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return list(allowed)[: physical_cores()]


def method_of(name: str, retriever: Retriever) -> Callable[[LanguageModel], Method]:
    """RAG with three passages and short answers, or a method of `benchmarks.real`."""
    if name == "RAG":
        return lambda model: RAG(model=model, retriever=retriever, form=PHRASE, k=3, max_tokens=48)
    return methods(retriever)[name]


async def measure(way: Way, method: str, file: Path, flight: int, count: int) -> Taken:
    """What all questions take; loading the model is not counted."""
    with tempfile.TemporaryDirectory() as folder:
        await asyncio.to_thread(build_index, corpus_path(), Path(folder, "index"))
        retriever, turns = open_index(Path(folder, "index")), asyncio.Semaphore(flight)
        async with models(way, file, flight) as found:
            make = method_of(method, retriever)

            async def answer(model: LanguageModel, text: str) -> int:
                async with turns:
                    solved = await solve(make(model), text, Run(), id=text, name="bench")
                    assert solved.trajectory.answer is not None, solved.error
                    return solved.trajectory.usage.completion

            await asyncio.gather(*(answer(each, "Which river is the longest?") for each in found))
            began, cpu = time.perf_counter(), _cpu()
            pairs = zip(cycle(found), demo_questions(count), strict=False)
            written = await asyncio.gather(*(answer(model, text) for model, (_, text) in pairs))
            return Taken(time.perf_counter() - began, _cpu() - cpu, sum(written))


def _cpu() -> float:
    """The processor seconds of this process and of those that it started."""
    import psutil

    own = psutil.Process()
    return sum(sum(each.cpu_times()[:2]) for each in [own, *own.children(recursive=True)])


def alone(way: Way, arguments: Sequence[str], flight: int) -> Taken:
    """The same in a process of its own, because OpenMP reads its environment only once."""
    command = [sys.executable, "-m", "benchmarks.embedded", *arguments, "--flights", str(flight), "--way", way.name]
    done = subprocess.run(command, env=os.environ | way.more, capture_output=True, text=True, check=True)
    return Taken(*json.loads(done.stdout.splitlines()[-1]))


def compare(
    chosen: Sequence[Way], arguments: Sequence[str], flights: Sequence[int], count: int, rounds: int
) -> Iterator[Row]:
    """These ways at all loads; the first is what the others are compared with."""
    for flight in flights:
        taken: dict[str, list[Taken]] = {way.name: [] for way in chosen}
        for _ in range(rounds):
            for way in chosen:
                taken[way.name].append(alone(way, arguments, flight))
        own = median(one.wall for one in taken[chosen[0].name])
        for name, each in taken.items():
            wall, cpu = median(one.wall for one in each), median(one.cpu for one in each)
            yield Row(name, flight, count, wall / count, wall / own, cpu / count, each[-1].written)


def table(rows: Sequence[Row]) -> str:
    """A Markdown table."""
    lines = ["| way | in flight | s a question | over own choice | processor s | tokens |", "|---|" + "---:|" * 5]
    for r in rows:
        cells = f"{r.in_flight} | {r.wall_s:.2f} | {r.over_own:.2f} | {r.cpu_s:.2f} | {r.written:,}"
        lines.append(f"| {r.way} | {cells} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; a line that says why where no model can run here."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", default="smollm2", help="an alias that was pulled, or a GGUF file")
    parser.add_argument("--method", default="RAG", choices=["RAG", "RAT", "RaR"])
    parser.add_argument("--questions", type=int, default=8, help="of the demonstration's twenty")
    parser.add_argument("--flights", default="1,8", help="questions in flight")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ways", help="only these, by their names in the table, separated by commas")
    parser.add_argument("--way", help="measure this way alone, in this process, and print its seconds as JSON")
    parser.add_argument("--json", type=Path, help="write the rows to this file too")
    asked = parser.parse_args(arguments)
    try:
        file = weights(asked.model, binary=None)
    except (ConfigurationError, MissingExtra) as why:
        print(f"skipped: {why}")
        return
    flights = [int(each) for each in asked.flights.split(",")]
    if asked.way is not None:
        way = next(each for each in ways(physical_cores()) if each.name == asked.way)
        print(json.dumps(asyncio.run(measure(way, asked.method, file, flights[0], asked.questions))))
        return
    same = ["--model", asked.model, "--method", asked.method, "--questions", str(asked.questions)]
    rows = []
    wanted = None if asked.ways is None else asked.ways.split(",")
    chosen = [way for way in ways(physical_cores()) if wanted is None or way.name in wanted]
    for row in compare(chosen, same, flights, asked.questions, asked.rounds):
        print(table([row]).rpartition("\n")[2], flush=True)
        rows.append(row)
    print(table(rows))
    if asked.json is not None:
        asked.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
