"""How well a check tells supported claims from unsupported ones, and what it costs.

Claims are made from the supporting sentences of HotpotQA's questions: as they stand (with the title in place of a
pronoun), cut to their first clause, and with another name, another number or a "not" put in; and from the questions
with the right answer, or with a wrong name of the same passages. The passages are the gold ones and three others of the
question; for `taken away`, five others. Made claims are nearer to the passages than a model's words are.

    python -m benchmarks.support [--task hotpotqa] [--support words] [--limit QUESTIONS] [--data DIR]
    python -m benchmarks.support --tables DIR --manuals FILE FILE

`--support` takes what `reground ask --support` takes; `model` is that of `--model`. The threshold that would have been
best on these claims is printed in the check's own units, for `support_threshold`.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import re
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import islice
from pathlib import Path

from benchmarks.support_sets import Made, entries, rows
from reground.app import catalogue
from reground.app.support import Check, open_check
from reground.core.evidence import Passage
from reground.core.run import Run
from reground.evaluation.data import data_path, data_root, numbered_records
from reground.evaluation.statistics import bootstrap_interval
from reground.evaluation.task import Example
from reground.evaluation.tasks import load_task
from reground.models.options import ModelOptions
from reground.support.check import Compared, rescored
from reground.support.lexical import SUPPORTED, Claim, Lexical
from reground.support.units import evidence
from reground.text.sentences import names_in, sentences

TRUE = ("sentence", "clause", "answer")
FALSE = ("other name", "other number", "negated", "taken away", "wrong answer")
_NUMBER = re.compile(r"\b\d[\d,.]*\b")
_PRONOUN = re.compile(r"^(He|She|It|They|His|Her|Its|Their)\b")
_CLAUSE = re.compile(r", (?:and|but|which|who|while)\b|; | \(")
_VERB = re.compile(r"\b(?:is|was|are|were|has|had)\b")

_AT_ONCE = 32
"""Claims that a check with a model scores in one call."""


def made(example: Example, corpus: Mapping[str, Passage], draw: random.Random) -> Iterator[Made]:
    """The claims of one question; none where its passages or its supporting sentences are unknown."""
    gold = _known(example, "gold_ids", corpus)
    others = [each for each in _known(example, "context_ids", corpus) if each not in gold]
    facts = _facts(example, gold)
    if not facts or not example.golden_answers:
        return
    passages = [*gold, *others[:3]]
    names = names_in(each.text for each in passages)
    title, sentence = draw.choice(facts)
    stated = _PRONOUN.sub(lambda at: title + ("'s" if at.group() in {"His", "Her", "Its", "Their"} else ""), sentence)
    yield "sentence", Claim(stated, stated), passages
    clause = _CLAUSE.split(stated)[0]
    if clause != stated and len(clause.split()) > 4:
        yield "clause", Claim(clause, clause), passages
    for kind, said in _altered(stated, names, draw):
        yield kind, Claim(said, said), passages
    yield "taken away", Claim(stated, stated), others[:5]
    answer, question = example.golden_answers[0], example.question
    wrong = [name for name in names if name.casefold() not in f"{question} {answer}".casefold()]
    wrong = [name for name in wrong if answer.casefold() not in name.casefold()]
    if wrong and answer.casefold() not in {"yes", "no"}:
        yield "answer", Claim(answer, answer, question, alone=True), passages
        other = draw.choice(wrong)
        yield "wrong answer", Claim(other, other, question, alone=True), passages


def _known(example: Example, key: str, corpus: Mapping[str, Passage]) -> list[Passage]:
    ids = example.metadata.get(key)
    return [corpus[str(each)] for each in ids if each in corpus] if isinstance(ids, list) else []


def _facts(example: Example, gold: Sequence[Passage]) -> list[tuple[str, str]]:
    """The supporting sentences, each with the title of its passage. The dataset numbers them by its own splitter."""
    parts = {each.title: [part.strip() for part in sentences(each.text) if part.strip()] for each in gold}
    marked = example.metadata.get("supporting_facts")
    pairs = [fact for fact in marked if isinstance(fact, list)] if isinstance(marked, list) else []
    return [
        (str(title), parts[str(title)][at])
        for title, at in pairs
        if isinstance(at, int) and at < len(parts.get(str(title), []))
    ]


def _altered(stated: str, names: Sequence[str], draw: random.Random) -> Iterator[tuple[str, str]]:
    """The sentence with one thing wrong."""
    own = [name for name in names if name in stated]
    foreign = [name for name in names if not any(word in stated for word in name.split())]
    if own and foreign:
        yield "other name", stated.replace(draw.choice(own), draw.choice(foreign), 1)
    numbers = [at for at in _NUMBER.finditer(stated) if at.group().isdecimal()]
    if numbers:
        at = draw.choice(numbers)
        other = abs(int(at.group()) + draw.choice([-7, -3, -2, -1, 1, 2, 4, 9]))
        yield "other number", f"{stated[: at.start()]}{other}{stated[at.end() :]}"
    if (verb := _VERB.search(stated)) is not None:
        yield "negated", f"{stated[: verb.end()]} not{stated[verb.end() :]}"


def auroc(true: Sequence[float], false: Sequence[float]) -> float:
    """The chance that a supported claim scores above an unsupported one, ties counted half."""
    ordered = sorted(false)
    below = (bisect_left(ordered, score) + bisect_right(ordered, score) for score in true)
    return sum(below) / 2 / len(true) / len(false)


def best_threshold(true: Sequence[float], false: Sequence[float]) -> float:
    """The score that, as a threshold, makes recall and the share of false claims turned down highest together."""
    ordered, others = sorted(true), sorted(false)

    def gained(score: float) -> float:
        kept = 1 - bisect_left(ordered, score) / len(ordered)
        return kept + bisect_left(others, score) / len(others)

    return max({*true}, key=gained)


def in_units(check: Check | None, score: float) -> float:
    """A score from 0 to 1 in the check's own units: a probability, or a cosine."""
    if check is None:
        return score
    share = min(1 - 1e-12, max(1e-12, score))
    least, width = check.least, check.width
    found = least + width * math.log(share / (1 - share))
    return found if width != 1 else 1 / (1 + math.exp(-found))


async def scored(check: Check | None, claims: Sequence[Made], scores: dict[str, list[float]]) -> tuple[float, float]:
    """Put the scores of claims with their kinds. Returns the seconds of CPU and of the clock that it took."""
    cpu, clock = time.process_time(), time.perf_counter()
    compared = []
    for _, claim, passages in claims:
        lexical = Lexical(evidence(passages))
        compared.append(Compared(claim, lexical, lexical.scores(claim)))
    if check is None:
        best = [each.best for each in compared]
    else:
        best = await rescored(compared, check, Run(), candidates=check.candidates)
    for (kind, _, _), (score, _) in zip(claims, best, strict=True):
        scores[kind].append(score)
    return time.process_time() - cpu, time.perf_counter() - clock


def compare_rows(given: argparse.Namespace) -> None:
    """Print how many right claims about tables and manuals are supported, and how many that another row would be."""
    scores: dict[str, list[float]] = {}
    draw = random.Random(1)
    sources = [*(rows(given.tables, draw) if given.tables else ()), *entries(given.manuals, draw)]
    for kind, claim, passages in sources:
        lexical = Lexical(evidence(passages))
        scores.setdefault(kind, []).append(Compared(claim, lexical, lexical.scores(claim)).best[0])
    _table("tables and manuals", scores)


async def measured(given: argparse.Namespace) -> None:
    task, root = load_task(given.task, given.data), data_root(given.data)
    corpus = {
        str(each["id"]): Passage(id=str(each["id"]), title=str(each.get("title", "")), text=str(each["text"]))
        for _, each in numbered_records(data_path(root, given.task.removesuffix("_train"), "corpus.jsonl"))
    }
    examples = islice(task.examples(), given.limit or None)
    claims = [each for example in examples for each in made(example, corpus, random.Random(example.id))]
    scores: dict[str, list[float]] = {kind: [] for kind in (*TRUE, *FALSE)}
    cpu = clock = 0.0
    async with AsyncExitStack() as opened:
        model = catalogue.load_model(given.model, ModelOptions()) if given.support == "model" else None
        check = None if given.support == "words" else open_check(given.support, given.threshold, model, opened)
        if check is not None:  # weights are loaded at the first score
            await scored(check, claims[:1], {kind: [] for kind in scores})
        for start in range(0, len(claims), _AT_ONCE):
            taken = await scored(check, claims[start : start + _AT_ONCE], scores)
            cpu, clock = cpu + taken[0], clock + taken[1]
        if model is not None:
            await model.aclose()  # type: ignore[attr-defined]
    _print(f"{given.task}, {given.support}", scores)
    true, false = ([score for kind in kinds for score in scores[kind]] for kinds in (TRUE, FALSE))
    if check is not None:
        print(f"the threshold that is best here: {in_units(check, best_threshold(true, false)):.3f}")
    print(
        f"{1000 * cpu / len(claims):.1f} ms of CPU time a claim with its passages, {1000 * clock / len(claims):.1f} ms"
    )


def _table(name: str, scores: Mapping[str, list[float]]) -> None:
    print(f"| {name}: claims | number | score | supported |\n| --- | ---: | ---: | ---: |")
    for kind, each in scores.items():
        kept = bootstrap_interval([float(score >= SUPPORTED) for score in each])
        mean = math.fsum(each) / len(each)
        print(f"| {kind} | {len(each)} | {mean:.2f} | {kept.mean:.2f} ({kept.low:.2f}–{kept.high:.2f}) |")


def _print(name: str, scores: Mapping[str, list[float]]) -> None:
    _table(name, scores)
    true, false = ([score for kind in kinds for score in scores[kind]] for kinds in (TRUE, FALSE))
    found, right = sum(score >= SUPPORTED for score in true), sum(score >= SUPPORTED for score in false)
    print(f"\nAUROC of all: {auroc(true, false):.3f}")
    stated = scores["sentence"] + scores["clause"]
    print(f"of statements: {auroc(stated, [s for kind in FALSE[:4] for s in scores[kind]]):.3f}")
    for kind in FALSE[:4]:
        print(f"  against {kind}: {auroc(stated, scores[kind]):.3f}")
    print(f"of short answers: {auroc(scores['answer'], scores['wrong answer']):.3f}")
    print(f"precision {found / max(1, found + right):.3f}, recall {found / len(true):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="hotpotqa")
    parser.add_argument("--support", default="words")
    parser.add_argument("--threshold", type=float)
    parser.add_argument("--model", default="gguf/smollm2")
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--tables", type=Path)
    parser.add_argument("--manuals", type=Path, nargs="*", default=[])
    given = parser.parse_args()
    if given.tables or given.manuals:
        compare_rows(given)
    else:
        asyncio.run(measured(given))


if __name__ == "__main__":
    main()
