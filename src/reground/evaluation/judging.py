"""Several judges rate the answers of finished runs, and their agreement (ReST meets ReAct, section 4.2)."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations, product
from math import fsum
from operator import mul
from statistics import correlation, fmean, stdev
from typing import TypeVar

from reground.core.concurrency import gather
from reground.core.errors import DataError, ModelError, TransientModelError
from reground.core.journal import Journal, fingerprint
from reground.core.run import Run
from reground.evaluation.report import NOTHING, Table, number, p_value
from reground.evaluation.results import RunFolder
from reground.evaluation.runner import FATAL, before_checks, data_of
from reground.evaluation.task import Task, answer_of, as_read, criteria_of
from reground.evaluation.tasks.longform import Judge

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Answer:
    """An answer to rate. run: its run's name. repeat: from 0. before: whether it is the one before the checks.

    text: as people read it. criteria: what it is rated by, where no reference decides.
    """

    run: str
    example: str
    repeat: int
    question: str
    gold: tuple[str, ...]
    text: str
    before: bool = False
    criteria: str = ""

    @property
    def id(self) -> str:
        """What people's labels name it by; an answer before the checks has no label."""
        return f"{self.run}/{self.example}~{self.repeat}"

    @property
    def judged(self) -> tuple[str, ...]:
        """What a judge reads of it. Two questions of the same words may have other reference answers."""
        return (self.question, self.text, self.criteria, *self.gold)


@dataclass
class Rater:
    """Somebody's ratings: a judge's, people's or a metric's. unread: ratings that could not be read or were refused."""

    name: str
    ratings: dict[Answer, float] = field(default_factory=dict)
    unread: int = 0


def answers_of(run: RunFolder, name: str, task: Task) -> Iterator[Answer]:
    """The final answers of a run, and those before the method's own checks if it has any.

    Raises DataError where the task's questions are not those of the run.
    """
    if data_of(task) != run.config.data:
        raise DataError(f"the questions of {task.name} are no longer those of this run", path=run.path)
    examples, criteria = {example.id: example for example in task.examples()}, criteria_of(task)
    repeats = {record.id: (record.example, record.repeat) for record in run.records().values()}
    for trajectory in run.solved():
        if trajectory.id not in repeats or not answer_of(trajectory).strip():
            continue
        example, repeat = examples[repeats[trajectory.id][0]], repeats[trajectory.id][1]
        texts = [answer_of(each) for each in (trajectory, before_checks(trajectory)) if each is not None]
        for before, text in enumerate(texts):
            gold, text = tuple(example.golden_answers), as_read(task, text)
            yield Answer(name, example.id, repeat, example.question, gold, text, bool(before), criteria)


async def rate(
    answers: Sequence[Answer],
    judge: Judge,
    journal: Journal,
    *,
    concurrency: int = 8,
    on_text: Callable[[int], None] = lambda count: None,
) -> Rater:
    """A judge's ratings of all answers; those of which a judge reads the same are rated once.

    journal: the same call resumes. on_text: called with the number of different texts done. Raises ModelError, but not
    where the judge refuses only some of them.
    """
    for answer in answers:
        if not answer.gold and not answer.criteria:
            raise DataError(f"question {answer.example} of {answer.run} has no reference answer to judge by")
    rater = Rater(judge.model.name)
    texts: dict[tuple[str, ...], list[Answer]] = {}
    for answer in answers:
        texts.setdefault(answer.judged, []).append(answer)

    async def rate_same(same: Sequence[Answer]) -> None:
        one = same[0]
        run = Run(run_id=rater.name, question_id=fingerprint("judged", *one.judged), journal=journal)
        rating = await judge.rate(one.question, one.gold, one.text, run, criteria=one.criteria)
        if rating is not None:
            rater.ratings |= dict.fromkeys(same, rating)

    await ask_each(list(texts.values()), rate_same, concurrency=concurrency, on_item=on_text)
    rater.unread = len(answers) - len(rater.ratings)
    return rater


async def ask_each(
    items: Sequence[Item], ask: Callable[[Item], Awaitable[None]], *, concurrency: int, on_item: Callable[[int], None]
) -> None:
    """Have a model asked about each item, `concurrency` of them at once.

    on_item: called with the number of items done. Raises ModelError, but not where the model refuses only some items,
    such as one that is too long for it.
    """
    remaining, count = iter(items), 0
    refused: list[ModelError] = []

    async def work() -> None:
        nonlocal count
        for item in remaining:
            try:
                await ask(item)
            except ModelError as error:
                if isinstance(error, (*FATAL, TransientModelError)):  # another item would fare no better
                    raise
                refused.append(error)
            count += 1
            on_item(count)

    await gather(*(work() for _ in range(min(concurrency, len(items)))))
    if refused and len(refused) == len(items):
        raise refused[0]


def by_people(answers: Sequence[Answer], labels: Mapping[str, float]) -> Rater:
    """People's ratings, by RUN/QUESTION~REPEAT. Raises DataError where none names an answer."""
    rater = _rater("people", answers, labels)
    if not rater.ratings:
        example = answers[0].id if answers else "RUN/QUESTION~0"
        raise DataError(f"no label names an answer of these runs; the first answer is {example!r}")
    return rater


def by_metric(metric: str, answers: Sequence[Answer], runs: Mapping[str, RunFolder]) -> Rater:
    """The scores that the runs recorded."""
    values = {
        f"{name}/{record.example}~{record.repeat}": value
        for name, run in runs.items()
        for record in run.records().values()
        if (value := record.value(metric)) is not None
    }
    return _rater(metric, answers, values)


def _rater(name: str, answers: Sequence[Answer], values: Mapping[str, float]) -> Rater:
    return Rater(name, {each: values[each.id] for each in answers if not each.before and each.id in values})


def mean_table(raters: Sequence[Rater], runs: Sequence[str]) -> Table:
    """Each run's mean rating, with the standard deviation over its repeats, and before the checks."""
    rows = []
    for run in runs:
        for before in (False, True):
            cells = []
            for rater in raters:
                means = _means(rater, lambda answer: (answer.run, answer.before, answer.repeat))
                repeats = [mean for (name, when, _), mean in means.items() if name == run and when is before]
                deviation = f" ± {number(stdev(repeats))}" if len(repeats) > 1 else ""
                cells.append(number(fmean(repeats)) + deviation if repeats else NOTHING)
            if any(cell != NOTHING for cell in cells):
                rows.append([run + (", before the checks" if before else ""), *cells])
    return Table("Mean ratings", ["run", *(rater.name for rater in raters)], rows, words=1)


def agreement_table(raters: Sequence[Rater]) -> Table:
    """Of each pair of raters Pearson's and Spearman's correlation: over the answers, and over the runs' means.

    Repeats of a question are averaged first; answers before the checks are left out. Fewer than three runs have no
    correlation worth showing.
    """
    rows = []
    final = [Rater(each.name, {a: value for a, value in each.ratings.items() if not a.before}) for each in raters]
    units: tuple[tuple[str, Callable[[Answer], Hashable], int], ...] = (
        ("questions", lambda answer: (answer.run, answer.example), 1),
        ("runs", lambda answer: answer.run, 3),
    )
    for (one, other), (unit, key, least) in product(combinations(final, 2), units):
        first, second = _means(one, key), _means(other, key)
        both = [item for item in first if item in second]
        if len(both) >= least:
            x, y = [first[item] for item in both], [second[item] for item in both]
            ranks = (mean_ranks(x), mean_ranks(y))
            cells = [cell for two in ((x, y), ranks) for cell in (number(pearson(*two)), p_value(correlation_p(*two)))]
            rows.append([one.name, other.name, unit, str(len(both)), *cells])
    headers = ["rater", "other rater", "over", "n", "Pearson", "p", "Spearman", "p"]
    return Table("Agreement", headers, rows)


def _means(rater: Rater, key: Callable[[Answer], Key]) -> dict[Key, float]:
    """The mean ratings, by what `key` says of the answers."""
    values: dict[Key, list[float]] = {}
    for answer, value in rater.ratings.items():
        values.setdefault(key(answer), []).append(value)
    return {name: fmean(each) for name, each in values.items()}


RESAMPLES = 2_000
_EXACT = 7  # items of which every pairing is tried
_SLACK = 1e-12  # for sums of the same numbers in another order


def pearson(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Pearson's r, between -1 and 1; None if it is undefined: for fewer than two pairs, or a constant side.

    Of ranks it is Spearman's rho.
    """
    if len(set(first)) < 2 or len(set(second)) < 2:
        return None
    return max(-1.0, min(1.0, correlation(first, second)))


def mean_ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1, ascending; equal values share their mean rank."""
    ordered = sorted(values)
    return [(bisect_left(ordered, value) + 1 + bisect_right(ordered, value)) / 2 for value in values]


def correlation_p(first: Sequence[float], second: Sequence[float], *, resamples: int = RESAMPLES) -> float | None:
    """Two-sided p of Pearson's r under random pairings; None where r is undefined. Of ranks it is Spearman's.

    All pairings of up to seven items are tried, and `resamples` random ones of more, the observed one among them
    (Fisher 1935; Phipson and Smyth 2010 on counting it).
    """
    if pearson(first, second) is None:
        return None
    x, y = ([value - fmean(values) for value in values] for values in (first, second))
    observed = abs(fsum(a * b for a, b in zip(x, y, strict=True))) * (1 - _SLACK)
    if len(x) <= _EXACT:
        sums = [abs(fsum(map(mul, x, order))) for order in permutations(y)]
        return sum(each >= observed for each in sums) / len(sums)
    draw, order, beyond = random.Random(0), list(y), 1
    for _ in range(resamples - 1):
        draw.shuffle(order)
        beyond += abs(fsum(map(mul, x, order))) >= observed
    return beyond / resamples
