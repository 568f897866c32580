"""A run that the kill test starts in a process of its own: python -m tests.evaluation.killed_run OUT BILL."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from reground.evaluation.runner import EvalSettings, evaluate
from tests.evaluation.fakes import Adder, Chain, SumTask

QUESTIONS, STEPS, BRANCHES, REPEATS, CONCURRENCY = 8, 4, 2, 2, 3


def main(out: str, bill: str) -> None:
    model = Adder(Path(bill), seconds=0.01)
    settings = EvalSettings(method="chain", model="adder", limit=None, repeats=REPEATS, concurrency=CONCURRENCY)
    task = SumTask(QUESTIONS)
    asyncio.run(evaluate(task, Chain(model, STEPS, BRANCHES), settings, Path(out)))


if __name__ == "__main__":
    main(*sys.argv[1:])
