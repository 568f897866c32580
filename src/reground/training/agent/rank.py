"""A model ranks the samples of each reasoning step (ReST meets ReAct, section 3.5 and listing 8).

Off policy: the trajectory went on with the sample of lowest perplexity, and stays as it is. Small judges prefer a place
in the list, so the order rotates from turn to turn; `judge` asks about every sample by itself instead.

Below are the stages on one folder: grown/, ranking.json, data/mixture.jsonl and the fitted models.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import inf
from pathlib import Path
from typing import Literal
from zlib import crc32

from reground.core.concurrency import gather
from reground.core.errors import DataError, ModelError
from reground.core.journal import SqliteJournal, fingerprint
from reground.core.language import LanguageModel, Sampling
from reground.core.run import Run
from reground.core.trajectory import NoteStep
from reground.critics.prompted import NEUTRAL, read_verdict
from reground.evaluation.results import write_text
from reground.evaluation.runner import is_refusal
from reground.methods.shared.prompts import render
from reground.training.agent.mixture import Ranking, Turn, differ, stated_of, turns_of
from reground.training.rows import Demonstration, scored

Style = Literal["rank", "judge"]

_NUMBER = re.compile(r"\d{1,3}")
_NAMED = re.compile(r"#\s?(\d{1,3})")
_ITEM = re.compile(r"\A\s*+\d{1,3}[.)]\s++(?=\D*+\d)")
_LABELS = frozenset({"explanation", "answer", "ranking"})

RANK = (
    "An agent answers questions by searching. Below is what it saw at one step, and several ways in which it could "
    "go on. Find the one that is best to learn from.\n"
    "Good steps are relevant to the question, say nothing that the agent has not seen, and lead to the answer in "
    "few steps. A step with an empty part is bad.\n\n"
    "What the agent saw:\n{state}\n\n{samples}\n\n"
    "Judge by what the agent saw, not by what you know yourself. Write exactly three lines:\n"
    "Explanation: why that one is the best\nAnswer: #its number\n"
    "Ranking: all numbers, the best first, as in #2 > #1"
)
JUDGE = (
    "An agent answers questions by searching. Below is what it saw at one step, and how it went on.\n"
    "Good steps are relevant to the question, say nothing that the agent has not seen, and lead to the answer in "
    "few steps. A step with an empty part is bad.\n\n"
    "What the agent saw:\n{state}\n\nHow it went on:\n{sample}\n\n"
    "Is this a good step? Answer with one word only, yes or no."
)
MOST = 192
"""The most tokens of a ranking with its explanation."""


@dataclass(frozen=True, kw_only=True)
class Ranker:
    """Orders the samples of a turn.

    model: the judge; the paper has a larger, instruction-tuned one. style: rank all in one call, or judge each.
    """

    model: LanguageModel
    style: Style = "rank"

    async def order(self, turn: Turn, run: Run) -> tuple[int, ...] | None:
        """The indices of the turn's samples, best first; None for a ranking that cannot be read.

        Equal samples are judged once and stand together. Those that the ranking does not name come last, by perplexity.
        """
        texts = list(dict.fromkeys(sample.text for sample in turn.samples))
        if len(texts) < 2:
            return tuple(range(len(turn.samples)))
        best = await (self._ranked(turn, texts, run) if self.style == "rank" else self._judged(turn, texts, run))
        if best is None:
            run.note("no ranking", turn=turn.key)
            return None
        places = {texts[index]: place for place, index in enumerate(best)}

        def place(index: int) -> tuple[int, float]:
            sample = turn.samples[index]
            return places.get(sample.text, len(texts)), inf if sample.logprob is None else -sample.logprob

        return tuple(sorted(range(len(turn.samples)), key=place))

    async def _ranked(self, turn: Turn, texts: Sequence[str], run: Run) -> list[int] | None:
        start = crc32(turn.key.encode()) % len(texts)
        shown = [*range(start, len(texts)), *range(start)]
        samples = "\n\n".join(f"Way #{number}:\n{texts[i]}" for number, i in enumerate(shown, start=1))
        prompt = render(RANK, state=turn.state, samples=samples)
        text = await run.ask(self.model, prompt, name="rank", sampling=Sampling(max_tokens=MOST))
        order = read_ranking(text, len(texts))
        return None if order is None else [shown[place] for place in order]

    async def _judged(self, turn: Turn, texts: Sequence[str], run: Run) -> list[int]:
        scores = []
        sampling = Sampling(max_tokens=4, logprobs=True)
        # one after the other, because each prompt begins as the one before, which a server then need not read again
        for text in texts:
            prompt, own = render(JUDGE, state=turn.state, sample=text), run.span("judge")
            (reply,) = await own.generate(self.model, prompt, name="judge", sampling=sampling, logprobs="welcome")
            score = read_verdict(reply)
            scores.append(NEUTRAL if score is None else score)
        return sorted(range(len(texts)), key=lambda i: -scores[i])


def read_ranking(text: str, count: int) -> list[int] | None:
    """The indices that a reply ranks, best first; what it does not name is left out. None if it names none.

    The line "Ranking:" counts, or a list below it; without a usable one the line "Answer:". Where numbers have a #,
    those without are places or counts.
    """
    lines = text.splitlines()
    for wanted in ("ranking", "answer"):
        for at, line in enumerate(lines):
            if _label(line) != wanted:
                continue
            listed = line.partition(":")[2].strip(" *_") or _list(lines[at + 1 :])
            named = dict.fromkeys(int(number) - 1 for number in _NAMED.findall(listed) or _NUMBER.findall(listed))
            if known := [index for index in named if 0 <= index < count]:
                return known
    return None


def _label(line: str) -> str:
    return line.partition(":")[0].strip(" *_#-").casefold()


def _list(lines: Sequence[str]) -> str:
    """The list that these lines begin with, without the numbers of its items."""
    items = takewhile(lambda line: _NUMBER.search(line) and _label(line) not in _LABELS, filter(str.strip, lines))
    return "\n".join(_ITEM.sub("", line) for line in items)


GROWN, RANKING, MIXTURE = "grown", "ranking.json", "mixture"


@dataclass(frozen=True)
class Usable:
    """How well an agent keeps to the form. turns: all steps by name; usable: those with at least one usable sample.

    fallbacks: steps for which the agent's code, not its model, gave the action.
    """

    turns: Counter[str]
    usable: Counter[str]
    fallbacks: int

    @property
    def share(self) -> float:
        """The share of all steps that have a usable sample; 0 without steps."""
        return self.usable.total() / self.turns.total() if self.turns else 0.0

    def describe(self) -> str:
        """One line with the share of usable steps, whole and by name."""
        parts = ", ".join(f"{name} {self.usable[name]}/{count}" for name, count in self.turns.items())
        steps = f"{self.turns.total()} steps, {self.share:.0%} with a usable sample"
        return f"{steps} ({parts}); {self.fallbacks} fallbacks"


def usable(run: Path) -> Usable:
    """How well the agent of a run keeps to the form. Raises DataError where the folder holds no run."""
    steps, with_sample, fallen = Counter[str](), Counter[str](), 0
    for record, trajectory in scored(run):
        for turn in turns_of(trajectory, record.example):
            steps[turn.step.name] += 1
            with_sample[turn.step.name] += bool(turn.samples)
        fallen += sum(isinstance(step, NoteStep) and step.name == "fallback" for step in trajectory.steps)
    return Usable(steps, with_sample, fallen)


def grown(out: Path, *, failed: bool = False) -> Iterator[Turn]:
    """All reasoning steps of the grown trajectories but those of failed questions, or those of failed ones alone.

    What a budget ended counts: each of its steps was whole. Raises DataError where nothing has been grown.
    """
    if not (out / GROWN).is_dir():
        raise DataError("nothing has been grown here: run reground train agent grow first", path=out)
    for record, trajectory in scored(out / GROWN):
        if (record.failure is not None) == failed:
            yield from turns_of(trajectory, record.example)


def stated(out: Path) -> Iterator[Demonstration]:
    """The calls that state the short answer of the grown trajectories, but for failed questions."""
    for record, trajectory in scored(out / GROWN):
        if record.failure is None:
            yield from stated_of(trajectory, record.example)


def rankable(out: Path) -> list[Turn]:
    """The steps that have two samples that differ. Raises DataError where nothing has been grown."""
    return list(filter(differ, grown(out)))


async def rank(
    out: Path, ranker: Ranker, *, concurrency: int = 8, on_turn: Callable[[int, int], None] = lambda done, total: None
) -> tuple[int, int]:
    """Rank the samples of every step and write ranking.json. Returns the number ranked, and that of unread rankings.

    The calls are in ranking.sqlite, so the same call resumes. on_turn: called with the steps done and all steps. Steps
    that the model refuses, such as one too long for it, count as unread. Raises ModelError where it refuses all.
    """
    turns = rankable(out)
    if not turns:
        raise DataError("no step here has two samples that differ: grow with --set samples=4", path=out)
    name = fingerprint("rank", ranker.model.name, ranker.style, RANK, JUDGE, str(MOST))
    orders: dict[str, tuple[int, ...] | None] = {}
    journal = SqliteJournal(out / "ranking.sqlite")
    left = iter(turns)
    refused: list[ModelError] = []

    async def work() -> None:
        for turn in left:
            order = None
            try:
                order = await ranker.order(turn, Run(run_id=name, question_id=turn.key, journal=journal))
            except ModelError as error:
                if not is_refusal(error):
                    raise
                refused.append(error)
            orders[turn.key] = order
            on_turn(len(orders), len(turns))

    try:
        await gather(*(work() for _ in range(min(concurrency, len(turns)))))
    finally:
        journal.close()
    ranking = {key: order for key, order in sorted(orders.items()) if order is not None}
    if refused and not ranking:
        raise refused[0]
    write_text(out / RANKING, json.dumps(ranking, indent=1) + "\n")
    return len(ranking), len(turns) - len(ranking)


def read_ranking_file(out: Path) -> Ranking:
    """What `rank` wrote. Raises DataError where it did not, or the file is broken."""
    path = out / RANKING
    try:
        orders = json.loads(path.read_text(encoding="utf-8"))
        return {str(key): tuple(int(index) for index in order) for key, order in orders.items()}
    except FileNotFoundError:
        raise DataError("there is no ranking here: run reground train agent rank first", path=path) from None
    except (ValueError, TypeError, AttributeError) as error:
        raise DataError(f"this is no ranking: {error}", path=path) from None
