"""What workers cost: the wall-clock time of a run over the ideal, in one process and in workers of Ray.

A mock server in its own process answers every call after a fixed latency, however many are in flight. Each question
makes its calls one after the other, so the ideal is questions x calls x latency over the questions in flight. Journal,
trajectories and scores are written as in earnest, and a worker's method goes on only when the command has written its
effect. Workers begin before the clock starts.

    python -m benchmarks.ray [--workers 1,4,16] [--in-flight 4] [--latency 1.0] [--calls 4] [--rounds 2] [--ray ADDRESS]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from benchmarks.overhead import server
from reground.app.cli.preparing import open_benches
from reground.app.cluster.opening import opened_pool, placed
from reground.app.options_evaluation import Evaluate
from reground.evaluation.compare import Cell
from reground.evaluation.runner import EvalSettings, evaluate
from reground.models.options import ModelOptions

METHOD = '''"""Calls one after the other."""

import dataclasses

from reground.core.answers import TEXT, Answer, AnswerForm
from reground.core.language import LanguageModel


@dataclasses.dataclass(frozen=True, kw_only=True)
class Calls:
    """calls: how many."""

    model: LanguageModel
    form: AnswerForm = TEXT
    calls: int = 4

    async def solve(self, question, run, /):
        text = ""
        for number in range(self.calls):
            text = await run.ask(self.model, f"{question} {number}", name="call")
        return Answer(text=text)


METHOD = Calls
'''


@dataclass(frozen=True)
class Row:
    """One run. workers: 0 for a run in one process. ms_a_call: beyond the latency, as a question sees it."""

    workers: int
    in_flight: int
    calls: int
    wall_s: float
    ideal_s: float
    cpu_ms: float
    ms_a_call: float

    @property
    def efficiency(self) -> float:
        """The ideal time over the real one."""
        return self.ideal_s / self.wall_s


async def measure(folder: Path, url: str, workers: int, settings: argparse.Namespace) -> Row:
    """One run from beginning to end."""
    at_once = settings.in_flight * max(1, workers)
    method, asked = folder / "calls.py", folder / f"questions-{at_once}.jsonl"
    method.write_text(METHOD)
    asked.write_text("".join(_question(number) for number in range(at_once * settings.rounds)))
    order = Evaluate(
        method=str(method), questions=asked, model="openai/mock", settings={"calls": settings.calls},
        model_options=ModelOptions(base_url=url), concurrency=at_once, ray=settings.ray if workers else None,
        ray_workers=workers or None, ray_cpus=settings.cpus,
    )  # fmt: skip
    async with AsyncExitStack() as opened:
        from reground.evaluation.tasks import load_task

        task, cell = load_task(order.task), Cell(method=order.method, tokens=None)
        (bench,) = await open_benches(order, [task], [order.method], folder, Console(quiet=True), opened, quiet=True)
        pool = await opened.enter_async_context(opened_pool(order, [order.method], print))
        base = EvalSettings(order.method, order.model, limit=None, concurrency=at_once)
        ready = placed(bench.configure(cell, base, order.budget), pool, order.task, cell, {})
        if pool is not None:
            await pool.ready()
        wall, cpu = time.perf_counter(), time.process_time()
        result = await evaluate(
            task, ready.method, ready.settings, folder / f"run-{workers}-{at_once}", elsewhere=ready.elsewhere
        )
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    calls = at_once * settings.rounds * settings.calls
    assert result.summary.usage.calls == calls, result.summary
    seconds = sum(record.seconds for record in result.records) / calls
    ideal = settings.rounds * settings.calls * settings.latency
    return Row(workers, at_once, calls, wall, ideal, 1000 * cpu / calls, 1000 * (seconds - settings.latency))


def _question(number: int) -> str:
    return json.dumps({"id": f"q{number}", "question": f"question {number}", "answer": "none"}) + "\n"


def table(rows: Sequence[Row]) -> str:
    """A Markdown table."""
    lines = [
        "| workers | in flight | calls | wall s | ideal s | efficiency | ms a call over the latency | CPU ms a call |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += (
        f"| {row.workers or 'one process'} | {row.in_flight} | {row.calls} | {row.wall_s:.2f} | {row.ideal_s:.2f} "
        f"| {row.efficiency:.1%} | {row.ms_a_call:.1f} | {row.cpu_ms:.2f} |"
        for row in rows
    )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--workers", default="1,4,16", help="numbers of workers")
    parser.add_argument("--in-flight", type=int, default=4, help="questions in flight at each worker")
    parser.add_argument("--latency", type=float, default=1.0, help="the server's latency in seconds")
    parser.add_argument("--calls", type=int, default=4, help="calls a question, one after the other")
    parser.add_argument("--rounds", type=int, default=2, help="questions for each place in flight")
    parser.add_argument("--ray", default="local", help="as of reground eval")
    parser.add_argument("--cpus", type=float, default=1.0, help="as --ray-cpus of reground eval")
    parser.add_argument("--json", type=Path, help="write the rows to this file too")
    settings = parser.parse_args(arguments)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, server(settings.latency) as url:
        for workers in (int(part) for part in settings.workers.split(",")):
            for each in dict.fromkeys((0, workers)):
                name = Path(folder, f"{workers}-{each}")
                name.mkdir()
                here = argparse.Namespace(**vars(settings))
                if not each:  # one process with as many questions in flight
                    here.in_flight = settings.in_flight * max(1, workers)
                rows.append(asyncio.run(measure(name, url, each, here)))
    print(table(rows))
    if settings.json is not None:
        settings.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
