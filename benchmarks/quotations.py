"""How often what a model quotes is in its passages, and what support by quote says of its answer.

    python -m benchmarks.quotations RUN ...           runs of `reground eval --method rag --set quote=true`
    python -m benchmarks.quotations --task hotpotqa   replies made of the supporting sentences, without a model

An answer is supported by words where a sentence of any passage supports it, and by quote where one that the model
copied does. In runs an answer counts as right by cover-EM. A made reply quotes the supporting sentences, the sentence
that the wrong answer is from, or a supporting sentence with another name or number or a "not"; the numbers of the
passages are all 1.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from benchmarks.support import _altered, _facts, _known
from reground.core.answers import PHRASE, Answer
from reground.core.evidence import Passage
from reground.core.run import Run
from reground.core.trajectory import Step
from reground.evaluation.data import data_path, data_root, numbered_records
from reground.evaluation.results import read_run
from reground.evaluation.statistics import bootstrap_interval
from reground.evaluation.task import Example
from reground.evaluation.tasks import load_task
from reground.methods.baselines import RAG
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from reground.support.check import compared
from reground.text.quotations import copied
from reground.text.sentences import names_in, sentences


class Seen(NamedTuple):
    """One reply. right: whether its answer is."""

    kind: str
    right: bool
    quoted: int
    misquoted: int
    by_words: bool
    by_quote: bool


def seen(kind: str, right: bool, answer: Answer, question: str, steps: Sequence[Step]) -> Seen:
    """What the checks say of an answer."""
    words = compared(answer.model_copy(update={"quoted": ()}), question, steps)
    quote = compared(answer, question, steps)
    supports = [each for sentence in quote.sentences for each in sentence.supports]
    by_quote = any(copied(q.quote, s.quote) or copied(s.quote, q.quote) for q in answer.quoted for s in supports)
    supported = any(sentence.supported for sentence in words.sentences)
    return Seen(kind, right, len(answer.quoted), len(answer.misquoted), supported, by_quote)


def of_run(folder: Path) -> Iterator[Seen]:
    """The replies of a run."""
    opened = read_run(folder)
    records = opened.records()
    for trajectory in opened.solved():
        record, answer = records.get(trajectory.id), trajectory.answer
        if answer is not None and record is not None:
            yield seen(folder.name, record.value("cover-EM") == 1.0, answer, trajectory.question, trajectory.steps)


async def of_task(name: str, limit: int | None) -> list[Seen]:
    """Made replies to the questions of a task."""
    task, root = load_task(name), data_root()
    corpus = {
        str(each["id"]): Passage(id=str(each["id"]), title=str(each.get("title", "")), text=str(each["text"]))
        for _, each in numbered_records(data_path(root, name.removesuffix("_train"), "corpus.jsonl"))
    }
    found = []
    for example in islice(task.examples(), limit):
        gold = _known(example, "gold_ids", corpus)
        passages = [*gold, *[each for each in _known(example, "context_ids", corpus) if each not in gold][:3]]
        for kind, right, quotes, answer in replies(example, gold, passages, random.Random(example.id)):
            said = "\n".join(f'"{quote}" [1]' for quote in quotes)
            run, model = Run(), ScriptedModel([f"{said}\nAnswer: {answer}"])
            method = RAG(model=model, retriever=ScriptedRetriever(passages), form=PHRASE, quote=True)
            found.append(seen(kind, right, await method.solve(example.question, run), example.question, run.steps))
    return found


def replies(
    example: Example, gold: Sequence[Passage], passages: Sequence[Passage], draw: random.Random
) -> Iterator[tuple[str, bool, list[str], str]]:
    """The kind of a reply, whether its answer is right, what it quotes, and the answer."""
    facts = [sentence for _, sentence in _facts(example, gold)]
    right = example.golden_answers[0]
    names = names_in(each.text for each in passages)
    wrong = [name for name in names if name.casefold() not in f"{example.question} {right}".casefold()]
    wrong = [name for name in wrong if right.casefold() not in name.casefold()]
    if not facts or not wrong or right.casefold() in {"yes", "no"}:
        return
    other = draw.choice(wrong)
    parts = [part.strip() for each in passages for part in sentences(each.text)]
    own = next((part for part in parts if other in " ".join(part.split())), parts[0])
    yield "right answer, supporting sentences", True, facts, right
    yield "wrong answer, supporting sentences", False, facts, other
    yield "wrong answer, its own sentence", False, [own], other
    for kind, altered in _altered(facts[0], names, draw):
        yield f"right answer, sentence with {kind}", True, [altered], right


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--task")
    parser.add_argument("--limit", type=int)
    given = parser.parse_args()
    found = [each for folder in given.runs for each in of_run(folder)]
    found += asyncio.run(of_task(given.task, given.limit)) if given.task else []
    print("| replies | number | quote | letter by letter | by words | by quote |")
    print("|---|---:|---:|---:|---:|---:|")
    for kind in dict.fromkeys(each.kind for each in found):
        several = [each for each in found if each.kind == kind]
        quoting = [each for each in several if each.quoted or each.misquoted]
        exact = _share([each.misquoted == 0 for each in quoting])
        by_words, by_quote = _share([each.by_words for each in several]), _share([each.by_quote for each in several])
        print(f"| {kind} | {len(several)} | {len(quoting)} | {exact} | {by_words} | {by_quote} |")
    for run in dict.fromkeys(folder.name for folder in given.runs):
        several = [each for each in found if each.kind == run]
        _tell(run, several)
        _tell(f"{run}, replies that quote", [each for each in several if each.quoted])


def _tell(name: str, several: Sequence[Seen]) -> None:
    """Print how well both checks tell right answers."""
    for check in ("by_words", "by_quote"):
        precision = _share([each.right for each in several if getattr(each, check)])
        recall = _share([getattr(each, check) for each in several if each.right])
        print(f"{name}: {len(several)}, {check}: precision {precision}, recall {recall}")


def _share(values: Sequence[bool]) -> str:
    if not values:
        return "-"
    interval = bootstrap_interval([float(each) for each in values])
    return f"{interval.mean:.2f} ({interval.low:.2f} to {interval.high:.2f})"


if __name__ == "__main__":
    main()
