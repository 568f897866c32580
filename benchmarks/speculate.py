"""What calls before their turn save and cost: RAT, RaR and IRCoT with and without `speculate`, in one run.

A mock server answers every call after a fixed latency, however many are in flight. It changes a given share of the
steps: a revision changes its step, or the next sentence is not the one that the model wrote before. Both times come
from the same run, one question after the other, and the answers have to be equal.

    python -m benchmarks.speculate [--latency 0.2] [--questions 12] [--steps 5] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reground.core.answers import PHRASE
from reground.core.evidence import Passage
from reground.core.language import LanguageModel
from reground.core.method import Method
from reground.core.run import Run
from reground.core.solve import solve
from reground.methods.ircot import IRCoT
from reground.methods.rar import RaR
from reground.methods.rat import RAT
from reground.models.openai import OpenAIModel
from reground.models.options import ModelOptions
from reground.models.wrappers.stack import wrap
from reground.retrieval.scripted import ScriptedRetriever
from reground.testing.openai_server import MockOpenAI

SHARES = (0.0, 0.25, 0.5, 1.0)
_FACT = "and some forty more words that make it as long as the steps of a usual draft are in which a model says what "
_FACT += "it knows of a river and of the towns on it and how long it is and which of them is the longer one of both"
PASSAGES = [
    Passage(id=f"river{i}", title=f"River {i}", text=f"River {i} " + "flows by a town, " * 30) for i in range(30)
]


@dataclass(frozen=True)
class Row:
    """One method at one share of changed steps. The ratios are those with the switch over those without."""

    method: str
    changed: float
    plain_s: float
    early_s: float
    wall: float
    calls: float
    tokens: float


def claim(question: str, i: int, *, changed: bool) -> str:
    return f"River {i} of {question} is {'long' if changed else 'short'}, {_FACT}."


def script(share: float, steps: int) -> Callable[[dict[str, Any]], str]:
    """The model: a step of a question changes with a probability of `share`, always the same ones."""

    def changes(question: str, i: int) -> bool:
        return random.Random(f"{question} {i}").random() < share

    def reply(body: dict[str, Any]) -> str:
        prompt = str(body["messages"][-1]["content"])
        question = re.findall(r"question\d+", prompt)[0]
        if "Write only the query" in prompt:
            return "River {} length".format(re.findall(r"River (\d+) of", prompt)[-1])
        if "write only: OK" in prompt:
            return "OK"
        if "Write only the next sentence" in prompt:
            at = prompt.rpartition("Reasoning:")[2].count(" of question")
            said = [claim(question, i, changed=i == at and changes(question, i)) for i in range(at, steps)]
            return " ".join([*said, "So the answer is River 1."][:3])
        if "Think step by step" in prompt:
            return "\n\n".join(claim(question, i, changed=False) for i in range(steps))
        revised = re.findall(r"(?:Text|Step to correct|Text to correct):\n(.*?)\n\nTask:", prompt, re.DOTALL)
        if not revised:
            return "Answer: River 1"
        before, _, last = str(revised[0]).rpartition("River ")
        i = int(last.partition(" ")[0])
        return f"{before}{claim(question, i, changed=changes(question, i))}"

    return reply


def methods(model: LanguageModel) -> dict[str, Callable[[bool], Method]]:
    """The three methods, each by the switch. RaR is shown with its first phase alone, which the switch is for."""
    retriever = ScriptedRetriever(PASSAGES)
    return {
        "RAT": lambda on: RAT(model=model, retriever=retriever, form=PHRASE, max_contents=None, speculate=on),
        "RaR, phase 1": lambda on: RaR(model=model, retriever=retriever, max_contents=None, max_rounds=0, speculate=on),
        "IRCoT": lambda on: IRCoT(model=model, retriever=retriever, form=PHRASE, k=2, speculate=on),
    }


async def measure(share: float, *, questions: int, steps: int, latency: float) -> list[Row]:
    """All methods at one share."""
    async with MockOpenAI(script(share, steps), latency=latency) as server:
        options = ModelOptions(base_url=server.url)
        model = wrap(OpenAIModel("mock", options), options)
        rows = [await _row(name, make, share, questions) for name, make in methods(model).items()]
        await model.aclose()
    return rows


async def _row(name: str, make: Callable[[bool], Method], share: float, questions: int) -> Row:
    seconds, calls, tokens = [0.0, 0.0], [0, 0], [0, 0]
    for number in range(-1, questions):  # the first opens the connections and does not count
        answers = []
        for on in (False, True):
            run = Run(question_id=f"{number}")
            began = time.perf_counter()
            solved = await solve(make(on), f"Which river of question{abs(number)} is longer?", run, id="q", name=name)
            if number >= 0:
                seconds[on] += time.perf_counter() - began
                calls[on] += run.usage.calls
                tokens[on] += run.usage.tokens
            answers.append(solved.trajectory.answer)
            assert solved.error is None, solved.error
        assert answers[0] == answers[1]
    plain, early = (each / questions for each in seconds)
    return Row(name, share, plain, early, early / plain, calls[1] / calls[0], tokens[1] / tokens[0])


def table(rows: Sequence[Row]) -> str:
    """A Markdown table."""
    lines = [
        "| method | steps changed | s a question | with `speculate` | wall over without | calls | tokens |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {row.method} | {row.changed:.0%} | {row.plain_s:.2f} | {row.early_s:.2f} | {row.wall:.2f} "
        f"| {row.calls:.2f} | {row.tokens:.2f} |"
        for row in sorted(rows, key=lambda row: row.method)
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--latency", type=float, default=0.2, help="the server's latency in seconds")
    parser.add_argument("--questions", type=int, default=12, help="questions, one after the other")
    parser.add_argument("--steps", type=int, default=5, help="steps of a draft, sentences of a chain")
    parser.add_argument("--json", type=Path, help="write the rows to this file too")
    settings = parser.parse_args(arguments)
    questions, steps, latency = settings.questions, settings.steps, settings.latency
    rows = [
        row
        for share in SHARES
        for row in asyncio.run(measure(share, questions=questions, steps=steps, latency=latency))
    ]
    print(table(rows))
    if settings.json is not None:
        settings.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
