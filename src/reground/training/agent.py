"""The Search Agent learns from its own trajectories (ReST meets ReAct, sections 3.4 to 3.6).

A `Turn` is a reasoning step with its samples. `mixture` makes one conversation of each, which teaches its best sample.

`rank` has a model order the samples of each step (listing 8), off policy: the trajectory went on with the sample of
lowest perplexity, and stays as it is. Small judges prefer a place in the list, so the order rotates from turn to turn;
`judge` asks about every sample by itself instead.

The stages share a folder: grown/, ranking.json, data/mixture.jsonl and the fitted models. In the loop of
self-improvement and distillation, the prompted agent grows the trajectories of the first generation. Every generation
fits all bases, each from its own weights again, on the steps of its trajectories; the first base's model grows the next
generation, and the others are its students. Gold answers score the trajectories; they never choose a step.

    OUT/gen1/grown, ranking.json, data/mixture.jsonl    the first generation
    OUT/gen1/NAME                                       its models
    OUT/gen2/...                                        the second
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import takewhile
from math import inf
from pathlib import Path
from typing import Literal
from zlib import crc32

from pydantic import JsonValue

from reground.core.errors import DataError
from reground.core.journal import SqliteJournal, fingerprint
from reground.core.language import LanguageModel, Message, Sampling
from reground.core.run import Run
from reground.core.trajectory import Candidate, ChooseStep, GenerateStep, NoteStep, Trajectory
from reground.critics.prompted import NEUTRAL, read_verdict
from reground.evaluation.judging import ask_each
from reground.evaluation.results import write_text
from reground.methods.search_agent import FINISH, STEPS, UNFORMED, Prompts, Step, actions
from reground.methods.search_agent.actions import Action
from reground.methods.shared.prompts import render
from reground.training.rows import Demonstration, scored

BY_NAME = {step.name: step for step in STEPS}
_COPIED, _LEAST_WORDS = 0.9, 4
"""The share of words that a copy has in common with an exemplar's text, and the fewest words that can be a copy."""


@dataclass(frozen=True)
class Sample:
    """A usable sample. text: its comments and its action, written as an exemplar is. logprob: as in Candidate."""

    action: Action
    text: str
    logprob: float | None


@dataclass(frozen=True)
class Turn:
    """A reasoning step: what the model saw besides the exemplars, and what it said.

    trajectory, question: ids. number: its place among the trajectory's steps. samples: the usable ones, in the order in
    which they were drawn. chosen: the index in `samples` of the one that went on.
    """

    trajectory: str
    question: str
    number: int
    step: Step
    state: str
    samples: tuple[Sample, ...]
    chosen: int | None

    @property
    def key(self) -> str:
        """Identifies the turn in a ranking."""
        return f"{self.trajectory}#{self.number}"


def turns_of(trajectory: Trajectory, question: str) -> Iterator[Turn]:
    """A trajectory's reasoning steps, in order. question: the id of its question."""
    choices = [step for step in trajectory.steps if isinstance(step, ChooseStep) and step.name in BY_NAME]
    for place, choice in enumerate(choices):
        usable = [i for i, candidate in enumerate(choice.candidates) if candidate.discarded is None]
        yield Turn(
            trajectory.id,
            question,
            place,
            BY_NAME[choice.name],
            choice.context,
            tuple(_sample(choice.candidates[i]) for i in usable),
            usable.index(choice.chosen) if choice.chosen in usable else None,
        )


def answers_of(trajectory: Trajectory, question: str) -> Iterator[Demonstration]:
    """The last call that states a short answer, where it did. It is no step of the paper, and small models need it
    taught: else they find an answer and go on talking.
    """
    notes = {step.name for step in trajectory.steps if isinstance(step, NoteStep)}
    calls = [step for step in trajectory.steps if isinstance(step, GenerateStep) and step.name == FINISH]
    if calls and UNFORMED not in notes and not trajectory.is_cut:
        reply = Message(role="assistant", content=calls[-1].replies[0].text.strip())
        extra: dict[str, JsonValue] = {"step": FINISH, "trajectory": trajectory.id}
        yield Demonstration(question=question, messages=(*calls[-1].messages, reply), extra=extra)


def _sample(candidate: Candidate) -> Sample:
    action = actions.from_data(candidate.data)
    lines = candidate.text.partition("ACTION_SELECTED")[0].splitlines()
    comments = [line.lstrip("# ").rstrip() for line in lines if line.lstrip().startswith("#")]
    return Sample(action, actions.reply(action, list(filter(None, comments))), candidate.logprob)


def fault(action: Action, step: Step) -> str:
    """Why an action is not to be taught; empty for a good one.

    It should have thoughts and has none: "automatically bad" (listing 8); checks have none. Or one of its texts is an
    exemplar's, word for word or nearly; an end says nothing of its own.
    """
    if not isinstance(action, actions.CheckAnswer | actions.ReviseAnswer) and not action.thoughts.strip():
        return "no thoughts"
    if isinstance(action, actions.Terminate):
        return ""
    shared = ((mine & theirs, mine + theirs) for mine in _texts(action) for theirs in _exemplars(step.name))
    copies = any(2 * both.total() >= _COPIED * all_.total() for both, all_ in shared)
    return "copies an exemplar" if copies else ""


@cache
def _exemplars(step: str) -> tuple[Counter[str], ...]:
    return tuple(words for exemplar in BY_NAME[step].exemplars for words in _texts(exemplar.action))


def _texts(action: Action) -> list[Counter[str]]:
    """The words of each of its texts that is long enough to tell a copy from chance."""
    texts = [Counter(value.casefold().split()) for value in actions.as_data(action).values() if isinstance(value, str)]
    return [words for words in texts if words.total() >= _LEAST_WORDS]


def differ(turn: Turn) -> bool:
    """Whether two samples of a turn differ."""
    return len({sample.text for sample in turn.samples}) > 1


By = Literal["perplexity", "ranking", "chance"]
"""How a step's sample is chosen: the pilot's way, the self-improvement's, and a control's of the same amount."""

Ranking = Mapping[str, Sequence[int]]
"""Of each turn that was ranked, by its key, the indices of its samples, best first."""


@dataclass(frozen=True)
class Mixture:
    """The rows, how many of each step, and the turns left out by reason.

    unranked: rows that should have been chosen by a ranking, and were by perplexity, because there was none. Those
    without a choice, of samples that are all alike, do not count. added: rows that were not grown, at the end.
    """

    rows: list[Demonstration]
    steps: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    unranked: int = 0
    added: int = 0

    def describe(self) -> str:
        """One line with the numbers of the steps and of those left out."""
        steps = ", ".join(f"{count} {name}" for name, count in self.steps.most_common())
        dropped = ", ".join(f"{count} {why}" for why, count in self.dropped.most_common())
        total = len(self.rows) - self.added
        parts = [f"{total} steps ({steps})" if total else "no steps"]
        if self.added:
            parts.append(f"{self.added} rows added")
        if dropped:
            parts.append(f"left out: {dropped}")
        if self.unranked:
            parts.append(f"{self.unranked} steps by perplexity, because they were not ranked")
        return "; ".join(parts)


def mixture(
    turns: Iterable[Turn],
    answers: Iterable[Demonstration] = (),
    *,
    by: By = "perplexity",
    ranking: Ranking | None = None,
    seed: int = 0,
    most: int | None = None,
    added: Sequence[Demonstration] = (),
) -> Mixture:
    """Rows that teach each step's best sample, without exemplars in the prompt.

    A turn is left out if no sample of it can be read, or each that can copies an exemplar or has empty thoughts; a turn
    that was not ranked falls back to perplexity. Where the agent's code gave the action there is no turn. The same
    turns and seed give the same rows. answers: rows of the calls that state the short answer. most: maximum number of
    these rows. added: rows to put behind them.
    """
    prompts, draw = Prompts(), random.Random(seed)
    pairs: list[tuple[Demonstration, bool]] = []
    dropped: Counter[str] = Counter()
    for turn in turns:
        faults = [fault(sample.action, turn.step) for sample in turn.samples]
        good = [i for i, each in enumerate(faults) if not each]
        if good:
            best, way = _best(turn, good, by, ranking or {}, draw)
            row = _row(turn, turn.samples[best], prompts.system(turn.step.name), way)
            pairs.append((row, way != by and differ(turn)))
        else:
            dropped[faults[0] if faults else "no usable sample"] += 1
    pairs += [(row, False) for row in answers]
    draw.shuffle(pairs)
    rows = [row for row, _ in pairs[:most]]
    unranked = sum(missed for _, missed in pairs[:most])
    steps = Counter(str(row.extra["step"]) for row in rows)
    return Mixture([*rows, *added], steps, dropped, unranked, len(added))


def _best(turn: Turn, good: Sequence[int], by: By, ranking: Ranking, draw: random.Random) -> tuple[int, By]:
    """The index of the sample to teach, and what chose it; `good` are those without a fault."""
    if by == "chance":
        return draw.choice(good), by
    ranked = [i for i in ranking.get(turn.key, ()) if i in good] if by == "ranking" else []
    if ranked:
        return ranked[0], by

    def sure(index: int) -> tuple[float, bool, int]:
        logprob = turn.samples[index].logprob
        return (-inf if logprob is None else logprob, index == turn.chosen, -index)

    return max(good, key=sure), "perplexity"


def _row(turn: Turn, sample: Sample, system: str, by: By) -> Demonstration:
    messages = (
        Message(role="system", content=system),
        Message(role="user", content=turn.state),
        Message(role="assistant", content=sample.text),
    )
    extra: dict[str, JsonValue] = {"step": turn.step.name, "trajectory": turn.trajectory, "turn": turn.number, "by": by}
    return Demonstration(question=turn.question, messages=messages, extra=extra)


Style = Literal["rank", "judge"]

_NUMBER = re.compile(r"\d{1,3}")
_HASHED = re.compile(r"#\s?(\d{1,3})")
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
        indices = [*range(start, len(texts)), *range(start)]
        samples = "\n\n".join(f"Way #{number}:\n{texts[i]}" for number, i in enumerate(indices, start=1))
        prompt = render(RANK, state=turn.state, samples=samples)
        text = await run.ask(self.model, prompt, name="rank", sampling=Sampling(max_tokens=MOST))
        order = read_ranking(text, len(texts))
        return None if order is None else [indices[place] for place in order]

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
    for label in ("ranking", "answer"):
        for at, line in enumerate(lines):
            if _label(line) != label:
                continue
            listed = line.partition(":")[2].strip(" *_") or _list(lines[at + 1 :])
            numbers = dict.fromkeys(int(number) - 1 for number in _HASHED.findall(listed) or _NUMBER.findall(listed))
            if indices := [index for index in numbers if 0 <= index < count]:
                return indices
    return None


def _label(line: str) -> str:
    return line.partition(":")[0].strip(" *_#-").casefold()


def _list(lines: Sequence[str]) -> str:
    """The list that these lines begin with, without the numbers of its items."""
    items = takewhile(lambda line: _NUMBER.search(line) and _label(line) not in _LABELS, filter(str.strip, lines))
    return "\n".join(_ITEM.sub("", line) for line in items)


GROWN, RANKING, MIXTURE = "grown", "ranking.json", "mixture"


def usable(run: Path) -> str:
    """How well the agent of a run keeps to the form, in one line: the steps that have a usable sample, whole and by
    name. Fallbacks are steps whose action the agent's code gave. Raises DataError where the folder holds no run.
    """
    steps, good, fallen = Counter[str](), Counter[str](), 0
    for record, trajectory in scored(run):
        for turn in turns_of(trajectory, record.example):
            steps[turn.step.name] += 1
            good[turn.step.name] += bool(turn.samples)
        fallen += sum(isinstance(step, NoteStep) and step.name == "fallback" for step in trajectory.steps)
    parts = ", ".join(f"{name} {good[name]}/{count}" for name, count in steps.items())
    share = good.total() / max(1, steps.total())
    return f"{steps.total()} steps, {share:.0%} with a usable sample ({parts}); {fallen} fallbacks"


def grown_turns(out: Path, *, failed: bool = False) -> Iterator[Turn]:
    """All reasoning steps of the grown trajectories but those of failed questions, or those of failed ones alone.

    What a budget ended counts: each of its steps was whole. Raises DataError where nothing has been grown.
    """
    if not (out / GROWN).is_dir():
        raise DataError("nothing has been grown here: run reground train agent grow first", path=out)
    for record, trajectory in scored(out / GROWN):
        if (record.failure is not None) == failed:
            yield from turns_of(trajectory, record.example)


def answer_rows(out: Path) -> Iterator[Demonstration]:
    """The calls that state the short answer of the grown trajectories, but for failed questions."""
    for record, trajectory in scored(out / GROWN):
        if record.failure is None:
            yield from answers_of(trajectory, record.example)


def rankable(out: Path) -> list[Turn]:
    """The steps that have two samples that differ. Raises DataError where nothing has been grown."""
    return list(filter(differ, grown_turns(out)))


async def rank(
    out: Path, ranker: Ranker, *, concurrency: int = 8, on_turn: Callable[[int, int], None] = lambda count, total: None
) -> tuple[int, int]:
    """Rank the samples of every step and write ranking.json. Returns the number ranked, and that of unread rankings.

    The calls are in ranking.sqlite, so the same call resumes. on_turn: called with the steps done and all steps. Steps
    that the model refuses, such as one too long for it, count as unread. Raises ModelError where it refuses all.
    """
    turns = rankable(out)
    if not turns:
        some = any(turn.samples for turn in grown_turns(out))
        advice = "more samples, as in --set samples=4" if some else "a model that keeps to the form"
        raise DataError(f"no step has two samples that differ: grow with {advice} ({usable(out / GROWN)})", path=out)
    name = fingerprint("rank", ranker.model.name, ranker.style, RANK, JUDGE, str(MOST))
    orders: dict[str, tuple[int, ...] | None] = {}
    journal = SqliteJournal(out / "ranking.sqlite")

    async def order(turn: Turn) -> None:
        orders[turn.key] = await ranker.order(turn, Run(run_id=name, question_id=turn.key, journal=journal))

    try:
        await ask_each(turns, order, concurrency=concurrency, on_item=lambda count: on_turn(count, len(turns)))
    finally:
        journal.close()
    ranking = {key: order for key, order in sorted(orders.items()) if order is not None}
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
