"""What the server costs: processor time a request beside bare starlette, and its memory over minutes.

The server runs in a process of its own over a scripted model that replies at once, so what is measured is the path of a
request. "the method's own" is the same question asked of the engine without a server: journal, trajectory and
checks. Bare starlette reads a body of the same size and answers with one.

    python -m benchmarks.serve [--requests 200] [--at-once 8]
    python -m benchmarks.serve --soak MINUTES
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from reground.app.documents import Source
from reground.app.options import Serve
from reground.app.serving.engine import Engine
from reground.app.serving.server import application
from reground.app.session import Session, Setup
from reground.core.evidence import Passage
from reground.core.language import Message
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever

TEXT = "The Vltava flows through Prague [1]. It is 430 kilometres long. "
PASSAGES = [Passage(id=f"{n}.md", title=f"River {n}", text=f"{TEXT} River {n}.") for n in range(5)]
CHAT = "/v1/chat/completions"
METHOD, BARE = "the method's own", "bare starlette"
ROUNDS = 5


class Forgetful(ScriptedModel):
    """A scripted model that keeps no calls, which would count as the server's memory."""

    async def generate(self, *asked: Any) -> Any:
        """Reply at once."""
        self.calls.clear()
        return await super().generate(*asked)


class ForgetfulRetriever(ScriptedRetriever):
    """The same for searches."""

    async def retrieve(self, query: str, /, *, k: int) -> Sequence[Passage]:
        """Search at once."""
        self.queries.clear()
        return await super().retrieve(query, k=k)


@contextlib.asynccontextmanager
async def opened(home: Path) -> AsyncIterator[Engine]:
    """An engine with one method over five passages."""
    model, retriever = Forgetful(lambda messages, sampling: TEXT * 3), ForgetfulRetriever(PASSAGES)
    setup = Setup(
        search=Serve(),
        methods=("rag",),
        models={"openai/m": model},
        sources={"docs": Source(retriever)},
        support="words",
        home=home,
    )
    yield Engine(Session(setup, {"openai/m": model}, {"docs": retriever}), concurrency=64)


async def bare(request: Request) -> JSONResponse:
    """What bare starlette does with the same body."""
    body = await request.json()
    return JSONResponse({"model": body.get("model"), "choices": [{"message": {"content": TEXT * 10}}]})


async def child() -> None:
    """Serve both until the parent ends it; the port is the first line of output."""
    with tempfile.TemporaryDirectory() as home:
        async with opened(Path(home)) as engine:
            app = application(engine, Serve(home=Path(home)))
            both = Starlette(routes=[Route("/bare", bare, methods=["POST"]), Mount("/", app)])
            config = uvicorn.Config(both, lifespan="off", access_log=False, log_level="critical")
            with socket.create_server(("127.0.0.1", 0), backlog=2048) as listening:
                print(listening.getsockname()[1], flush=True)
                await uvicorn.Server(config).serve([listening])


@contextlib.contextmanager
def served() -> Iterator[tuple[str, psutil.Process]]:
    """The server's address and process."""
    command = [sys.executable, "-m", "benchmarks.serve", "--child"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}", psutil.Process(process.pid)
        finally:
            process.terminate()


def question(number: int, **more: object) -> dict[str, object]:
    """The body of a request that was not asked before."""
    asked = f"Which river flows through town number {number}, and how long is it?"
    return {"model": "rag/m@docs", "messages": [{"role": "user", "content": asked}], **more}


async def many(one: Callable[[int], Awaitable[None]], count: int, at_once: int) -> None:
    """Do `one` `count` times, at most `at_once` at the same time."""
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await one(number)

    await asyncio.gather(*(worker() for _ in range(at_once)))


def cpu_seconds(process: psutil.Process) -> float:
    """The processor time of a process."""
    times = process.cpu_times()
    return float(times.user + times.system)


async def measure(requests: int, at_once: int) -> None:
    """Print the processor time of each kind of request: its best round, of rounds that take turns."""
    with tempfile.TemporaryDirectory() as home, served() as (url, process):
        async with opened(Path(home)) as engine, aiohttp.ClientSession() as session:

            async def direct(number: int) -> None:
                said = [Message(role="user", content=str(question(number)["messages"]))]
                await engine.ask("", said, observer=lambda event: None)

            async def post(path: str, number: int, **more: object) -> None:
                async with session.post(url + path, json=question(number, **more)) as reply:
                    assert reply.status == 200
                    await reply.read()

            there = partial(cpu_seconds, process)
            cases: dict[str, tuple[Callable[[int], Awaitable[None]], Callable[[], float]]] = {
                METHOD: (direct, time.process_time),
                BARE: (partial(post, "/bare"), there),
                "reground serve": (partial(post, CHAT, seed=1), there),
                "reground serve, stream": (partial(post, CHAT, seed=2, stream=True), there),
            }
            found: dict[str, list[float]] = {name: [] for name in cases}
            for number in range(ROUNDS + 1):
                for name, (one, clock) in cases.items():
                    before = clock()
                    await many(lambda each, one=one, first=number * requests: one(first + each), requests, at_once)  # type: ignore[misc]
                    found[name].append(clock() - before)
    best = {name: 1000 * min(seconds[1:]) / requests for name, seconds in found.items()}  # the first round warms up
    print("| what | CPU ms a request | beyond the method and bare starlette |\n|---|---:|---:|")
    for name, spent in best.items():
        beyond = "" if name in (METHOD, BARE) else f"{spent - best[METHOD] - best[BARE]:.2f}"
        print(f"| {name} | {spent:.2f} | {beyond} |")


async def soak(minutes: float) -> None:
    """Ask without an end, in every way, and print the server's memory."""
    with served() as (url, process):
        end, number, shown = time.monotonic() + 60 * minutes, 0, 0.0
        async with aiohttp.ClientSession() as session:
            while time.monotonic() < end:
                number += 1
                body = question(number, stream=number % 2 == 0) if number % 5 else {"messages": number}
                async with session.post(url + CHAT, json=body) as reply:
                    if number % 7:
                        await reply.read()
                await asyncio.sleep(0.02)
                if time.monotonic() - shown >= 15:
                    shown, rss = time.monotonic(), process.memory_info().rss / 2**20
                    left = (end - shown) / 60
                    said = f"{number:6} requests, {rss:6.1f} MiB, {process.num_fds()} files open"
                    print(f"{left:5.1f} min left, {said}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--requests", type=int, default=200, help="requests of each kind in each round")
    parser.add_argument("--at-once", type=int, default=8, help="requests at once")
    parser.add_argument("--soak", type=float, metavar="MINUTES", help="watch the server's memory for so long instead")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    settings = parser.parse_args(arguments)
    if settings.child:
        asyncio.run(child())
    elif settings.soak is not None:
        asyncio.run(soak(settings.soak))
    else:
        asyncio.run(measure(settings.requests, settings.at_once))


if __name__ == "__main__":
    main()
