"""What a model call costs on the client: processor time a call, and wall-clock time over the ideal.

A mock server in its own process answers every request after a fixed latency. Each question makes its calls one
after the other, so the ideal is calls x latency whatever the number of questions in flight. reground runs as in
earnest: Run.generate with a journal on disk, a budget, a trajectory, and the model in all its wrappers.

With --tuned the garbage collector looks less often and passes over what was there at the start, for every client
alike; Python's defaults look every 700 objects, which a thousand questions in flight make dear.

    python -m benchmarks.overhead [--quick] [--tuned] [--latency 0.05] [--calls 20] [--flights 1,200,1000] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import importlib.util
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import aiohttp

from reground.core.answers import Answer
from reground.core.budget import Budget
from reground.core.journal import SqliteJournal
from reground.core.language import Message, Sampling
from reground.core.run import Run, solve
from reground.core.trajectory import append_trajectory
from reground.models.openai import OpenAIModel
from reground.models.options import ModelOptions
from reground.models.wrappers import wrap

PROMPT = "Which of the two rivers is longer, and what does each passage say about its source? " * 20
Question = Callable[[int, int], Awaitable[None]]
Client = Callable[[str], contextlib.AbstractAsyncContextManager[Question]]


@dataclass(frozen=True)
class Row:
    """One client at one load. `ratio` is wall-clock time over the ideal; `cpu_ms` is a call's processor time."""

    client: str
    in_flight: int
    calls: int
    cpu_ms: float
    wall_s: float
    ratio: float


@contextlib.contextmanager
def server(latency: float) -> Iterator[str]:
    """The mock server's base URL; it runs in its own process."""
    command = [sys.executable, "-m", "benchmarks.fast_server", str(latency)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@contextlib.asynccontextmanager
async def bare_aiohttp(url: str) -> AsyncIterator[Question]:
    """The least that a client on aiohttp can do."""
    body = {"model": "mock", "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 256, "temperature": 0.7}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def question(number: int, calls: int) -> None:
            for _ in range(calls):
                async with session.post(f"{url}/chat/completions", json=body) as response:
                    reply = await response.json()
                    assert reply["choices"][0]["message"]["content"]

        yield question


class _Calls:
    """A method that makes `calls` calls, one after the other."""

    def __init__(self, model: object, calls: int) -> None:
        self.model, self.calls = model, calls

    async def solve(self, question: str, run: Run, /) -> Answer:
        sampling = Sampling(temperature=0.7, max_tokens=256)
        text = ""
        for number in range(self.calls):
            with run.span("step", number=number) as step:
                replies = await step.generate(self.model, question, name="call", sampling=sampling)  # type: ignore[arg-type]
                text = replies[0].text
                run.propose(Answer(text=text))
        return Answer(text=text)


@contextlib.asynccontextmanager
async def reground(url: str) -> AsyncIterator[Question]:
    """Everything on: wrappers, journal on disk, budget, trajectory on disk."""
    model = wrap(OpenAIModel("mock", ModelOptions(base_url=url)), ModelOptions(base_url=url))
    with tempfile.TemporaryDirectory() as folder:
        journal = SqliteJournal(Path(folder, "journal.db"))
        trajectories = Path(folder, "trajectories.jsonl")

        async def question(number: int, calls: int) -> None:
            budget = Budget(tokens=10_000_000, calls=1000, seconds=3600)
            run = Run(run_id="bench", question_id=str(number), journal=journal, budget=budget)
            solved = await solve(_Calls(model, calls), PROMPT, run, id=str(number), name="calls")
            assert solved.error is None, solved.error
            append_trajectory(trajectories, solved.trajectory)

        yield question
        journal.close()
        await model.aclose()


@contextlib.asynccontextmanager
async def adapter_alone(url: str) -> AsyncIterator[Question]:
    """The adapter without wrappers, journal or trajectory."""
    model = OpenAIModel("mock", ModelOptions(base_url=url))
    messages, sampling = (Message(role="user", content=PROMPT),), Sampling(temperature=0.7, max_tokens=256)

    async def question(number: int, calls: int) -> None:
        for _ in range(calls):
            await model.generate(messages, sampling)

    yield question
    await model.aclose()


@contextlib.asynccontextmanager
async def openai_sdk(url: str) -> AsyncIterator[Question]:
    """The openai SDK, where it is installed."""
    from openai import AsyncOpenAI  # type: ignore[import-not-found,unused-ignore]

    async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:

        async def question(number: int, calls: int) -> None:
            for _ in range(calls):
                await client.chat.completions.create(
                    model="mock", messages=[{"role": "user", "content": PROMPT}], max_tokens=256, temperature=0.7
                )

        yield question


def clients() -> dict[str, Client]:
    """All clients that can be measured here."""
    found: dict[str, Client] = {
        "bare aiohttp": bare_aiohttp,
        "reground, adapter": adapter_alone,
        "reground, all on": reground,
    }
    if importlib.util.find_spec("openai") is not None:
        found["openai SDK"] = openai_sdk
    return found


async def measure(name: str, client: Client, url: str, in_flight: int, calls: int, latency: float) -> Row:
    """Run `in_flight` questions of `calls` calls each; connections are opened before the clock starts."""
    async with client(url) as question:
        await asyncio.gather(*(question(-1 - number, 1) for number in range(in_flight)))
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(question(number, calls) for number in range(in_flight)))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    total = in_flight * calls
    return Row(name, in_flight, total, 1000 * cpu / total, wall, wall / (calls * latency))


def run(flights: Sequence[int], calls: int, latency: float, repeats: int) -> list[Row]:
    """Every client at every load, interleaved; the best of `repeats` by wall-clock time."""
    rows: list[Row] = []
    with server(latency) as url:
        for in_flight in flights:
            best: dict[str, Row] = {}
            for _ in range(repeats):
                for name, client in clients().items():
                    row = asyncio.run(measure(name, client, url, in_flight, calls, latency))
                    if name not in best or row.ratio < best[name].ratio:
                        best[name] = row
            rows += best.values()
    return rows


def table(rows: Sequence[Row]) -> str:
    """A Markdown table, with each row's cost over that of bare aiohttp at the same load."""
    bare = {row.in_flight: row for row in rows if row.client == "bare aiohttp"}
    lines = [
        "| in flight | client | CPU ms a call | over bare | wall s | over the ideal | over bare |",
        "|---:|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        base = bare[row.in_flight]
        lines.append(
            f"| {row.in_flight} | {row.client} | {row.cpu_ms:.3f} | {row.cpu_ms / base.cpu_ms:.2f} "
            f"| {row.wall_s:.2f} | {row.ratio:.2f} | {row.wall_s / base.wall_s:.2f} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="fewer calls, one repeat")
    parser.add_argument("--latency", type=float, default=0.05, help="the server's latency in seconds")
    parser.add_argument("--calls", type=int, default=20, help="calls a question, one after the other")
    parser.add_argument("--flights", default="1,200,1000", help="questions in flight")
    parser.add_argument("--tuned", action="store_true", help="let the garbage collector look less often")
    parser.add_argument("--json", type=Path, help="write the rows to this file too")
    settings = parser.parse_args(arguments)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(8192, hard)), hard))
    if settings.tuned:
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
    calls, repeats = (min(settings.calls, 5), 1) if settings.quick else (settings.calls, 3)
    flights = [int(part) for part in settings.flights.split(",")]
    rows = run(flights, calls, settings.latency, repeats)
    print(table(rows))
    if settings.json is not None:
        settings.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
