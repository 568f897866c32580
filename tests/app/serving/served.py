"""A real server on loopback, in a thread of its own, over a scripted model."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import openai
import uvicorn

from reground.app.documents import Source
from reground.app.options import Offering, Serve
from reground.app.serving.engine import Engine
from reground.app.serving.keys import Keys
from reground.app.serving.server import application
from reground.app.session import Session, Setup
from reground.core.budget import Budget
from reground.core.evidence import Passage, Retriever
from reground.core.language import LanguageModel, Message, Reply, Sampling
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever

PASSAGES = [
    Passage(id="prague.md", title="Prague", text="The Vltava flows through Prague.", url="prague.md"),
    Passage(id="vienna.md", title="Vienna", text="Vienna lies on the Danube.", url="https://example.org/vienna"),
]
ANSWER = "The Vltava flows through Prague [1]. I do not know more."


class Slow(ScriptedModel):
    """Takes its time, and tells how its calls went."""

    def __init__(self, script, *, seconds: float = 0.0, name: str = "scripted") -> None:
        super().__init__(script, name=name)
        self.seconds = seconds
        self.begun = self.cancelled = self.ended = 0
        self.gate: threading.Event | None = None

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        self.begun += 1
        try:
            await asyncio.sleep(self.seconds)
            if self.gate is not None:
                await asyncio.to_thread(self.gate.wait, 10)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        self.ended += 1
        return await super().generate(messages, sampling)


def engine_of(
    home: Path,
    model: LanguageModel,
    methods: Sequence[str] = ("direct",),
    corpora: Mapping[str, Retriever] | None = None,
    *,
    budget: Budget | None = None,
    folder: Path | None = None,
    **how,
) -> Engine:
    """Methods over one open model, "m", and open retrievers: direct/m, or rag/m@docs. folder: what all of them search
    instead."""
    setup = Setup(
        search=Offering(),
        methods=tuple(methods),
        models={"openai/m": model},
        sources={name: Source(folder or retriever) for name, retriever in (corpora or {}).items()},
        budget=budget,
        support="words",
        home=home,
    )
    return Engine(Session(setup, {"openai/m": model}, corpora or {}), **how)


@dataclass
class Served:
    """A running server: its port, its engine."""

    port: int
    engine: Engine

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def client(self) -> openai.OpenAI:
        """The official client, which asks once."""
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0)


@contextmanager
def served(
    home: Path,
    model: LanguageModel,
    *,
    methods: Sequence[str] = ("direct", "rag", "rat"),
    keys: Keys | None = None,
    concurrency: int = 8,
    waiting: int = 64,
    retriever: Retriever | None = None,
    folder: Path | None = None,
    corpora: Sequence[str] = ("docs",),
    here: bool = True,
    **options,
) -> Iterator[Served]:
    """Serve methods over one model, "m", and documents, until the block ends. folder: these, instead of a retriever."""
    ready: list[tuple[Engine, uvicorn.Server]] = []
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)

    async def main() -> None:
        searched = {name: retriever or ScriptedRetriever(PASSAGES) for name in corpora}
        how = {"concurrency": concurrency, "waiting": waiting, "folder": folder, "keep": (90,)}
        engine = engine_of(home, model, methods, searched, **how)
        app = application(engine, Serve(port=0, home=home, **options), keys, here=here)
        config = uvicorn.Config(app, lifespan="off", log_config=None, access_log=False, timeout_graceful_shutdown=1)
        ready.append((engine, uvicorn.Server(config)))
        await ready[0][1].serve([listening])

    thread = threading.Thread(target=asyncio.run, args=(main(),), daemon=True)
    thread.start()
    try:
        while not ready or not ready[0][1].started:
            thread.join(0.01)
            assert thread.is_alive()
        yield Served(listening.getsockname()[1], ready[0][0])
    finally:
        ready[0][1].should_exit = True
        thread.join(10)
