"""Whether it pays to mend answers that a model gave from memory, beside answering from documents at once.

The answers are those of a finished evaluation (`reground eval --method direct`). Each is checked by words against the
task's own documents, and mended where it fell. A line is written for each question, so a run goes on where it stopped.

    python -m benchmarks.mending answers --task hotpotqa --run RUN --out FILE.jsonl [--limit N] [--method rar]
    python -m benchmarks.mending answers ... --model perfect
    python -m benchmarks.mending drafts --task popqa --out FILE.jsonl --limit N
    python -m benchmarks.mending report FILE.jsonl [--beside RUN]

`perfect` corrects every answer that fell to the gold one: what the check alone leaves of a perfect reviser. `drafts`
lets the model answer in three sentences from memory first, and mends these. `--beside` is an evaluation of another
method on the same questions, such as `rag`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from reground.app.checking import checked, mend, setup_of
from reground.app.options import DEFAULT_MODEL, Ask, Check
from reground.app.session import Session
from reground.app.session import answer as write
from reground.core.answers import PHRASE
from reground.core.language import Message, Sampling
from reground.evaluation.metrics.text import cover_exact_match, token_f1
from reground.evaluation.statistics import bootstrap_interval, compare
from reground.evaluation.task import Example
from reground.evaluation.tasks import load_task
from reground.models.scripted import ScriptedModel
from reground.support.verdicts import Checked

_DRAFT = "Answer in three full sentences, each of which states a fact."


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of JSON lines; none if there is no such file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def mend_all(given: argparse.Namespace) -> None:
    """Mend the answers, or the drafts, that have no line yet."""
    task = load_task(given.task)
    examples = {example.id: example for example in task.examples()}
    done = {line["id"] for line in read(given.out)}
    if given.work == "answers":
        answers = {line["example"]: line["answer"] for line in read(given.run / "scores.jsonl")[: given.limit]}
    else:
        answers = dict.fromkeys([line["example"] for line in read(given.run / "scores.jsonl")[: given.limit]], "")
    model = reviser(task.examples()) if given.model == "perfect" else given.model
    corpus = getattr(task, "corpus", None)
    options = Check(
        method=given.method,
        model=model,
        corpus=corpus,
        home=given.home,
        mend=True,
        unsupported="keep",
    )
    async with Session.open(setup_of(options)) as session:
        for number, (key, answer) in enumerate(answers.items(), start=1):
            if key not in done:
                line = await one(session, examples[key], answer, options)
                with given.out.open("a") as file:
                    file.write(json.dumps(line, ensure_ascii=False) + "\n")
                print(number, len(answers), line["seconds"], line["draft"], "->", line["after"], flush=True)


def reviser(examples: Iterable[Example]) -> ScriptedModel:
    """A model that corrects every answer to the gold one, whatever the passages say."""
    golds = {example.question: example.golden_answers[0] for example in examples}

    def reply(messages: Sequence[Message], sampling: Sampling) -> str:
        asked = messages[-1].content.partition("Question:\n")[2].partition("\n\n")[0]
        return f"Answer: {golds[asked]}"

    return ScriptedModel(reply)


async def one(session: Session, example: Example, answer: str, options: Check) -> dict[str, Any]:
    """The line of one question."""
    question = example.question
    if not answer:
        writing = Ask(f"{question} {_DRAFT}", method="direct", model=options.model, home=options.home, form="text")
        answer = (await write(writing)).text
    before = await checked(session, answer, question=question, k=options.k)
    result = (await mend(session, before, options)).mended
    assert result is not None
    return {
        "id": example.id,
        "question": question,
        "gold": example.golden_answers,
        "draft": answer,
        "after": result.text,
        "parts": [outcome(part.before, part.outcome.value, part.text, part.why) for part in result.parts],
        "share": [before.share, result.share],
        "calls": result.usage.calls,
        "tokens": result.usage.prompt + result.usage.completion,
        "seconds": round(result.seconds, 1),
        "trajectory": result.trajectory,
    }


def outcome(before: Checked, became: str, after: str, why: str) -> Mapping[str, str]:
    """What became of a claim."""
    return {"text": before.text, "verdict": before.verdict.value, "outcome": became, "after": after, "why": why}


def report(given: argparse.Namespace) -> None:
    """Print the table of a file of lines."""
    lines = read(given.file)
    golds = {line["id"]: line["gold"] for line in lines}
    before = {line["id"]: line["draft"] for line in lines}
    after = {line["id"]: short(line) for line in lines}
    fell = {line["id"] for line in lines if any(part["why"] for part in line["parts"])}
    kinds = Counter(
        (
            "right" if cover_exact_match(before[key], gold) else "wrong",
            "unsupported" if key in fell else "right" if cover_exact_match(after[key], gold) else "wrong",
        )
        for key, gold in golds.items()
    )
    for (was, now), count in sorted(kinds.items()):
        print(f"{was:6} -> {now:12} {count:4}")
    f1 = partial(scores, golds=golds)
    print("token F1 before", bootstrap_interval(f1(before)), "after", bootstrap_interval(f1(after)))
    marked = {key: "" if key in fell else text for key, text in after.items()}
    print("token F1, unsupported answers taken out", bootstrap_interval(f1(marked)))
    print(
        "after against before",
        compare(dict(zip(golds, f1(after), strict=True)), dict(zip(golds, f1(before), strict=True))),
    )
    print("tokens a question", sum(line["tokens"] for line in lines) / len(lines))
    if given.beside is not None:
        beside = {line["example"]: line for line in read(given.beside / "scores.jsonl") if line["example"] in golds}
        other = {key: line["answer"] for key, line in beside.items()}
        tokens = [line["usage"]["prompt"] + line["usage"]["completion"] for line in beside.values()]
        print(
            "beside: questions", len(beside), "F1", bootstrap_interval(scores(other, golds)), sum(tokens) / len(tokens)
        )
        right = sum(bool(cover_exact_match(text, golds[key])) for key, text in other.items())
        print("beside: right", right, "wrong", len(other) - right)


def short(line: Mapping[str, Any]) -> str:
    """The answer after mending, without the source that stands behind it."""
    return PHRASE.extract(line["after"].partition(" [source:")[0])


def scores(answers: Mapping[str, str], golds: Mapping[str, Sequence[str]]) -> list[float]:
    """The token F1 of each answer."""
    return [token_f1(text, golds[key]) for key, text in answers.items()]


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    works = parser.add_subparsers(dest="work", required=True)
    for name in ("answers", "drafts"):
        work = works.add_parser(name)
        work.add_argument("--task", required=True)
        work.add_argument("--run", type=Path, required=True)
        work.add_argument("--out", type=Path, required=True)
        work.add_argument("--limit", type=int)
        work.add_argument("--method", default="rar")
        work.add_argument("--model", default=DEFAULT_MODEL)
        work.add_argument("--home", type=Path)
    work = works.add_parser("report")
    work.add_argument("file", type=Path)
    work.add_argument("--beside", type=Path)
    given = parser.parse_args()
    if given.work == "report":
        report(given)
    else:
        asyncio.run(mend_all(given))


if __name__ == "__main__":
    main()
