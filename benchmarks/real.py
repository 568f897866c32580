"""The methods on a real llama.cpp server: one question after the other, and several at once, in one run.

The naive way asks one question after the other and waits for every call, as the published programs do. Ours keeps some
questions in flight, with the journal, limits and retries on, and begins later steps before their turn (`speculate`).
Both use the same server, prompts and index, at temperature 0. "cached" is the share of prompt tokens that the server
did not have to read again, "of what could be" that share over the longest beginnings that prompts have in common.

    python -m benchmarks.real --model FILE.gguf [--questions 8] [--flights 1,8,16] [--threads 1] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reground.app.asking import close
from reground.app.evaluating import open_documents
from reground.app.options_documents import Documents
from reground.core.answers import PHRASE
from reground.core.branches import gather
from reground.core.evidence import Retriever
from reground.core.journal import SqliteJournal
from reground.core.language import LanguageModel, Message, Reply, Sampling
from reground.core.method import Method
from reground.core.run import Run
from reground.core.solve import solve
from reground.demo import corpus_path, questions_path
from reground.methods.rar import RaR
from reground.methods.rat import RAT
from reground.methods.search_agent import SearchAgent
from reground.models.openai import OpenAIModel
from reground.models.options import ModelOptions
from reground.models.wrappers.stack import wrap

SLOT_TOKENS = 4096
KEY = "BENCHMARK_KEY"
NAIVE = "naive"


@dataclass(frozen=True)
class Row:
    """One method, one way. wall_s: a question. over: wall over the naive one's. same: share of equal answers."""

    method: str
    way: str
    wall_s: float
    over: float
    calls: float
    prompt: float
    cached: float
    of_possible: float
    same: float


class Seen:
    """A model that remembers its prompts, to tell how much of each an earlier one began with."""

    def __init__(self, inner: LanguageModel) -> None:
        self.inner, self.name = inner, inner.name
        self.earlier: list[str] = []
        self.shared, self.all = 0, 0

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        """Ask the model."""
        text = "\n".join(message.content for message in messages)
        self.shared += max((alike(text, before) for before in self.earlier), default=0)
        self.all += len(text)
        self.earlier.append(text)
        return await self.inner.generate(messages, sampling)


def alike(one: str, other: str) -> int:
    """How many characters two texts begin with in common."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def methods(model: LanguageModel, retriever: Retriever, *, early: bool) -> dict[str, Method]:
    """The three methods in the size that a small model's context allows."""
    short: dict[str, Any] = {"form": PHRASE, "max_tokens": 256}
    rat = RAT(model=model, retriever=retriever, max_contents=3, passage_tokens=300, speculate=early, **short)
    rar = RaR(
        model=model, retriever=retriever, max_contents=3, passage_tokens=300, max_rounds=1, speculate=early, **short
    )
    agent = SearchAgent(
        model=model, retriever=retriever, form=PHRASE, max_searches=2, samples=1, temperature=0, shots=1
    )
    return {"RAT": rat, "RaR": rar, "Search Agent": agent}


async def measure(url: str, questions: Sequence[str], flights: Sequence[int]) -> list[Row]:
    """All methods, the naive way and ours."""
    rows: list[Row] = []
    retriever = await open_documents(corpus_path(), Documents())
    for name in methods(_bare(url), retriever, early=False):
        first, naive = await _row(name, NAIVE, url, retriever, questions, 1, None)
        rows.append(first)
        for flight in flights:
            row, _ = await _row(name, f"{flight} in flight", url, retriever, questions, flight, (first, naive))
            rows.append(row)
    return rows


def _bare(url: str) -> OpenAIModel:
    return OpenAIModel("gguf", ModelOptions(base_url=url, api_key_env=KEY))


async def _row(
    name: str,
    way: str,
    url: str,
    retriever: Retriever,
    questions: Sequence[str],
    flight: int,
    naive: tuple[Row, Sequence[str]] | None,
) -> tuple[Row, list[str]]:
    bare = _bare(url)
    seen = Seen(bare if naive is None else wrap(bare, ModelOptions(base_url=url, api_key_env=KEY)))
    method = methods(seen, retriever, early=naive is not None)[name]
    limit, usage, answers = asyncio.Semaphore(flight), [], [""] * len(questions)
    with tempfile.TemporaryDirectory() as folder:
        journal = None if naive is None else SqliteJournal(Path(folder) / "journal.sqlite")

        async def one(at: int, question: str) -> None:
            async with limit:
                run = Run(run_id=way, question_id=f"{at}", journal=journal)
                solved = await solve(method, question, run, id=f"{at}", name=name)
                assert solved.error is None, solved.error
                answers[at] = "" if solved.trajectory.answer is None else solved.trajectory.answer.text
                usage.append(run.usage)

        began = time.perf_counter()
        await gather(*(one(at, question) for at, question in enumerate(questions)))
        wall = (time.perf_counter() - began) / len(questions)
        if journal is not None:
            journal.close()
    await close(seen.inner)
    prompt, cached = sum(each.prompt for each in usage), sum(each.cached for each in usage)
    share, possible = cached / prompt, seen.shared / seen.all
    equal = [1.0] if naive is None else [float(a == b) for a, b in zip(answers, naive[1], strict=True)]
    row = Row(
        name, way, wall, 1.0 if naive is None else wall / naive[0].wall_s, sum(each.calls for each in usage),
        prompt, share, share / possible, sum(equal) / len(equal),
    )  # fmt: skip
    return row, answers


@contextlib.contextmanager
def served(model: Path, *, slots: int, threads: int) -> Iterator[str]:
    """The address of a llama.cpp server in a process of its own."""
    os.environ[KEY] = secrets.token_hex(16)
    command = [sys.executable, "-m", "benchmarks.real", "--serve", str(model), str(slots), str(threads)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        if not address.startswith("http"):
            raise SystemExit(f"llama.cpp could not serve {model}")
        yield f"{address}/v1"
    finally:
        process.kill()
        process.wait()


def serve(model: str, slots: int, threads: int) -> None:
    """Serve a file until the process is killed."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = model
    parameters.n_parallel, parameters.n_ctx = slots, slots * SLOT_TOKENS
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    parameters.api_keys = [os.environ[KEY]]
    parameters.port = 0
    parameters.verbosity = -1
    server = xllamacpp.Server(parameters)
    print(server.listening_address, flush=True)
    while True:
        time.sleep(60)


def table(rows: Sequence[Row]) -> str:
    """A Markdown table."""
    lines = [
        "| method | way | s a question | over naive | calls | prompt tokens | cached | of what could be | same text |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {row.method} | {row.way} | {row.wall_s:.1f} | {row.over:.2f} | {row.calls:.0f} | {row.prompt:.0f} "
        f"| {row.cached:.0%} | {row.of_possible:.0%} | {row.same:.0%} |"
        for row in rows
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["--serve"]:
        return serve(given[1], int(given[2]), int(given[3]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", type=Path, required=True, help="a GGUF file")
    parser.add_argument("--questions", type=int, default=8, help="of the demo's 20")
    parser.add_argument("--flights", default="1,8,16", help="questions in flight")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of the server")
    parser.add_argument("--json", type=Path, help="write the rows to this file too")
    settings = parser.parse_args(given)
    flights = [int(each) for each in settings.flights.split(",")]
    lines = questions_path().read_text(encoding="utf-8").splitlines()[: settings.questions]
    questions = [json.loads(line)["question"] for line in lines]
    with served(settings.model, slots=max(flights), threads=settings.threads) as url:
        rows = asyncio.run(measure(url, questions, flights))
    print(table(rows))
    if settings.json is not None:
        settings.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
