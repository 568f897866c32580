"""Runs one method on one task: many questions at once, each of them durable.

Every question and repeat is one `Run` in the folder's journal, finished when its trajectory is written. Until then a
restart replays the journal and pays only for missing calls.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from pathlib import Path
from time import monotonic
from typing import cast

from pydantic import JsonValue

from reground.core.budget import Budget
from reground.core.concurrency import gather
from reground.core.errors import (
    AuthenticationError,
    CapabilityError,
    ConfigurationError,
    DataError,
    IndexRefused,
    JournalError,
    SandboxUnavailable,
    StorageError,
)
from reground.core.journal import Journal, SqliteJournal, fingerprint
from reground.core.language import Usage
from reground.core.programs import Sandbox
from reground.core.run import Event, Method, Run, Solved, solve
from reground.core.trajectory import BEFORE_CHECKS, GenerateStep, NoteStep, Trajectory
from reground.core.user_code import awaited, origin, place_of
from reground.evaluation.questions import Questions, select
from reground.evaluation.results import (
    Record,
    RunConfig,
    RunFolder,
    Summary,
    open_run,
    stages_of,
    summarise,
    write_stored,
)
from reground.evaluation.task import Example, Score, Task, answer_of, hidden_documents
from reground.support.check import compared, states

SIMULATION = "simulation"
"""The note of a tree search that a simulation has entered its tree; `number` counts them from 1."""


@dataclass(frozen=True)
class Update:
    """The cost of a question so far, and what of it was paid since the last time.

    simulations: how many its tree has so far, where it is a tree that is grown.
    """

    usage: Usage
    paid: Usage = field(default_factory=Usage)
    simulations: int = 0

    @classmethod
    def of(cls, event: Event) -> Update:
        """The update of an event. A replayed call costs nothing now."""
        step, paid, simulations = event.step, Usage(), 0
        if event.type == "end" and isinstance(step, GenerateStep) and not step.replayed:
            paid = sum((reply.usage for reply in step.replies), paid)
        if isinstance(step, NoteStep) and step.name == SIMULATION:
            simulations = cast(int, step.data["number"])
        return cls(event.usage, paid, simulations)

    def after(self, before: Update) -> Update:
        """This one and an earlier one that was not sent, as one."""
        return Update(self.usage, before.paid + self.paid, max(self.simulations, before.simulations))


Tell = Callable[[Update], None]
"""Called with each update of a question."""


@dataclass(frozen=True)
class Progress:
    """The progress of a run, in questions x repeats.

    resumed: those that earlier sessions finished; done includes them.
    usage: the cost of finished and started ones over all sessions. paid: the cost of this session.
    left: estimated seconds to the end at this session's pace; None until one has finished.
    """

    done: int = 0
    total: int = 0
    resumed: int = 0
    failed: int = 0
    unscored: int = 0
    usage: Usage = field(default_factory=Usage)
    paid: Usage = field(default_factory=Usage)
    elapsed: float = 0.0
    left: float | None = None

    def after(self, record: Record) -> Progress:
        """The progress with one more finished."""
        failed = record.failure is not None
        unscored = not failed and all(score.value is None for score in record.scores.values())
        return replace(
            self,
            done=self.done + 1,
            failed=self.failed + failed,
            unscored=self.unscored + unscored,
            usage=self.usage + record.usage,
        )


class Tracker:
    """Adds up the progress of a run for its observer. records: those of earlier sessions."""

    def __init__(self, total: int, records: Iterable[Record], observer: Callable[[Progress], None] | None) -> None:
        self._observer, self._started = observer, monotonic()
        self._begun: dict[str, Usage] = {}
        self._finished = reduce(Progress.after, records, Progress(total=total))
        self._finished = replace(self._finished, resumed=self._finished.done)
        self._tell()

    def count(self, id: str, update: Update) -> None:
        """Count what a question has cost so far, and what of it was paid now."""
        self._begun[id] = update.usage
        self._finished = replace(self._finished, paid=self._finished.paid + update.paid)
        self._tell()

    def finish(self, record: Record) -> None:
        """Count a finished question."""
        self._begun.pop(record.id, None)
        self._finished = self._finished.after(record)
        self._tell()

    def _tell(self) -> None:
        if self._observer is None:
            return
        now, elapsed = self._finished, monotonic() - self._started
        seconds_left = elapsed / (now.done - now.resumed) * (now.total - now.done) if now.done > now.resumed else None
        usage = sum(self._begun.values(), now.usage)
        self._observer(replace(now, usage=usage, elapsed=elapsed, left=seconds_left))


RUN_ID = "eval"
"""A run's name in the journal of its folder."""


@dataclass(frozen=True)
class Request:
    """A question and repeat with all that its run depends on, beside the method; small enough to be sent.

    id: of the trajectory and in the journal. method: its name, for the record. hidden: documents it must not find.
    run: the run's name in the journal. example: the question with its gold answers, where its tree is to be grown; a
    method that answers never sees it.
    """

    id: str
    question: str
    method: str
    budget: Budget
    seed: int
    hidden: frozenset[str] = frozenset()
    run: str = RUN_ID
    example: Example | None = None


Elsewhere = Callable[[Request, Journal, Tell], Awaitable[Solved]]
"""Answers a question in another process, as `solve_here` does in this one, with every effect in the journal before the
method sees its result. Raises the errors of a run, as opposed to those of a question, which are in the trajectory."""


async def solve_here(method: Method, request: Request, journal: Journal, tell: Tell) -> Solved:
    """Answer a question in this process. What the journal has recorded of it is replayed."""
    run = Run(
        run_id=request.run,
        question_id=request.id,
        journal=journal,
        budget=request.budget,
        observer=lambda event: tell(Update.of(event)),
        seed=request.seed,
        hidden=request.hidden,
    )
    return await solve(method, request.question, run, id=request.id, name=request.method)


ANSWER_CHARACTERS = 300
LABEL_CHARACTERS = 80  # of a value that is short enough to group by
FATAL = (
    AuthenticationError,
    CapabilityError,
    ConfigurationError,
    IndexRefused,
    JournalError,
    SandboxUnavailable,
    StorageError,
)
"""Errors of the run, not of a question: the run stops, and no question is marked as failed."""


@dataclass(frozen=True)
class EvalSettings(Questions):
    """How to evaluate.

    method, model, retriever: names for the record. method_settings, model_settings: their settings, for the record.
    budget: per question and repeat.
    """

    method: str
    model: str
    retriever: str | None = None
    method_settings: dict[str, JsonValue] = field(default_factory=dict)
    model_settings: dict[str, JsonValue] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)


@dataclass(frozen=True)
class RunResult:
    """A finished run. `notices` are messages about repairs of the folder."""

    path: Path
    config: RunConfig
    records: list[Record]
    summary: Summary
    notices: list[str]


def choose(task: Task, settings: EvalSettings) -> list[Example]:
    """The questions of a run: shuffled by the seed and cut at the limit, so a higher limit keeps those of a lower."""
    examples = list(task.examples())
    if other := [each for each in examples if not isinstance(each, Example)]:
        raise ConfigurationError(
            f"{origin(task)}: examples gave {other[0]!r:.80}, not a reground.evaluation.task.Example"
        )
    for name, count in Counter(example.id for example in examples).items():
        if count > 1:
            raise DataError(f"task {task.name}: two examples have the id {name!r}")
    if not examples:
        raise DataError(f"task {task.name} has no examples")
    if settings.ids:
        examples = select(task.name, examples, settings.ids)
    random.Random(settings.seed).shuffle(examples)
    return examples if settings.limit is None else examples[: settings.limit]


def data_of(task: Task) -> str:
    """A fingerprint of the task's examples, as in RunConfig.data."""
    texts = [
        text for e in task.examples() for text in (e.id, e.question, str(len(e.golden_answers)), *e.golden_answers)
    ]
    return fingerprint("examples", *texts)


def configuration(task: Task, settings: EvalSettings) -> RunConfig:
    """The run's identity for its folder."""
    return RunConfig(
        task=task.name,
        data=data_of(task),
        primary=task.primary,
        form=task.form.name,
        method=settings.method,
        settings=settings.method_settings,
        model=settings.model,
        model_settings=settings.model_settings,
        retriever=settings.retriever,
        budget=settings.budget,
        seed=settings.seed,
        ids=tuple(e.id for e in select(task.name, task.examples(), settings.ids)) if settings.ids else None,
        limit=settings.limit,
        repeats=settings.repeats,
    )


async def evaluate(
    task: Task,
    method: Method,
    settings: EvalSettings,
    out: Path,
    *,
    sandbox: Sandbox | None = None,
    observer: Callable[[Progress], None] | None = None,
    elsewhere: Elsewhere | None = None,
) -> RunResult:
    """Run a method on a task, or resume an interrupted run.

    A failed question is recorded as failed and the others continue. An error of the run itself (see FATAL) stops the
    run. Raises ConfigurationError when `out` contains another run, DataError when a file in it is broken.

    elsewhere: answers the questions in place of `method`, in other processes; they are scored and recorded here.
    """
    if settings.repeats < 1 or settings.concurrency < 1 or (settings.limit is not None and settings.limit < 1):
        raise ConfigurationError("limit, repeats and concurrency must be at least 1")
    jobs = [_Job(example, repeat) for repeat in range(settings.repeats) for example in choose(task, settings)]
    with open_run(out, configuration(task, settings)) as folder:
        journal = SqliteJournal(folder.journal)
        session = _Session(task, method, settings, folder, journal, sandbox, elsewhere)
        try:
            await session.run(jobs, observer)
        finally:
            folder.notices += journal.notices
            journal.close()
            records = list(session.records.values())
            summary = summarise(folder.config, records, expected=len(jobs))
            write_stored(out / "summary.json", summary)
        return RunResult(out, folder.config, records, summary, folder.notices)


@dataclass(frozen=True)
class _Job:
    example: Example
    repeat: int

    @property
    def id(self) -> str:
        return f"{self.example.id}~{self.repeat}"


@dataclass
class _Session:
    """One process's work on a run folder."""

    task: Task
    method: Method
    settings: EvalSettings
    folder: RunFolder
    journal: SqliteJournal
    sandbox: Sandbox | None
    elsewhere: Elsewhere | None
    fatal: Exception | None = None
    records: dict[str, Record] = field(default_factory=dict)

    async def run(self, jobs: Sequence[_Job], observer: Callable[[Progress], None] | None) -> None:
        """Score finished but unscored questions, then run the others. Raises the error that stopped the run."""
        workers = range(min(self.settings.concurrency, len(jobs)))
        unscored = self._recover({job.id: job for job in jobs})

        async def score() -> None:
            for job, trajectory in unscored:
                await self._score(job, trajectory)

        await gather(*(score() for _ in workers))
        tracker = Tracker(len(jobs), self.records.values(), observer)
        queue = iter([job for job in jobs if job.id not in self.records])
        await gather(*(self._work(queue, tracker) for _ in workers))
        if self.fatal is not None:
            raise self.fatal

    def _recover(self, jobs: Mapping[str, _Job]) -> Iterator[tuple[_Job, Trajectory]]:
        """Load the questions that earlier sessions finished. Gives those that have to be scored, one after the other.

        What is to be run or scored again is dropped, here and on disk. So are scores without a trajectory, whose
        questions run again.
        """
        folder, settings, records = self.folder, self.settings, self.folder.records()
        retry = frozenset(key for key, r in records.items() if settings.retry_failed and r.failure is not None)
        rescore = frozenset(key for key, r in records.items() if settings.rescore or r.scoring is not None) - retry
        if retry:
            folder.drop(retry, trajectories=True)
        if rescore:
            folder.drop(rescore, trajectories=False)
        records = {key: record for key, record in records.items() if key not in retry | rescore}
        solved: set[str] = set()
        for trajectory in folder.solved():
            if trajectory.id in solved or trajectory.id not in jobs:
                continue
            solved.add(trajectory.id)
            if trajectory.id in records:
                self.records[trajectory.id] = records[trajectory.id]
            else:
                yield jobs[trajectory.id], trajectory
        orphans = frozenset(records.keys() - solved)
        if orphans:
            folder.drop(orphans, trajectories=False)
            folder.notices.append(
                f"{folder.scores}: {len(orphans)} scores had no trajectory; their questions are run again"
            )

    async def _work(self, queue: Iterator[_Job], tracker: Tracker) -> None:
        """Run questions until none is left or the run fails."""
        for job in queue:
            if self.fatal is not None:
                return
            try:
                solved = await self._solve(job, tracker)
                if isinstance(solved.error, FATAL):
                    raise solved.error
                about: dict[str, JsonValue] = {"task": self.task.name, "example": job.example.id, "repeat": job.repeat}
                trajectory = solved.trajectory.model_copy(update={"metadata": about})
                self.folder.append(trajectory)
                record = await self._score(job, trajectory)
            except Exception as error:
                # Other workers finish their question, because it is paid for.
                self.fatal = self.fatal if self.fatal is not None else error
                return
            tracker.finish(record)

    async def _solve(self, job: _Job, tracker: Tracker) -> Solved:
        settings = self.settings
        hidden = hidden_documents(self.task, job.example)
        request = Request(job.id, job.example.question, settings.method, settings.budget, settings.seed, hidden)
        answer = self.elsewhere or partial(solve_here, self.method)
        return await answer(request, self.journal, partial(tracker.count, job.id))

    async def _score(self, job: _Job, trajectory: Trajectory) -> Record:
        scores: Mapping[str, Score] = {}
        scoring: str | None = None
        if trajectory.failure is None:
            try:
                scores = await all_scores(self.task, job.example, trajectory, self.sandbox)
            except FATAL:
                raise
            except Exception as error:
                place = place_of(error)
                scoring = f"{'' if place is None else f'{place}: '}{type(error).__name__}: {error}"
        short = self.task.form.extract(answer_of(trajectory))
        record = Record(
            id=job.id,
            example=job.example.id,
            repeat=job.repeat,
            scores=dict(scores),
            answer=short[:ANSWER_CHARACTERS],
            whole=fingerprint("answer", short) if len(short) > ANSWER_CHARACTERS else "",
            usage=trajectory.usage,
            seconds=trajectory.seconds,
            failure=trajectory.failure,
            stopped=trajectory.stopped,
            cut=trajectory.is_cut,
            scoring=scoring,
            stages=stages_of(trajectory),
            metadata={
                key: value
                for key, value in job.example.metadata.items()
                if isinstance(value, (bool, int)) or (isinstance(value, str) and len(value) <= LABEL_CHARACTERS)
            },
        )
        self.folder.append_record(record)
        self.records[job.id] = record
        return record


EARLIER = "before checks: "
FAITHFULNESS = "faithfulness"


async def all_scores(
    task: Task, example: Example, trajectory: Trajectory, sandbox: Sandbox | None
) -> Mapping[str, Score]:
    """Every metric of the task; the primary one also for the answer before a method's own checks, if there is one
    (ReST meets ReAct, table 4); and faithfulness.

    An answer that the checks left unchanged is not scored twice, because a judge could rate it differently.
    """
    scores = await _scores(task, example, trajectory, sandbox)
    before = before_checks(trajectory)
    if before is not None and task.primary in scores:
        same = before.answer == trajectory.answer
        earlier = scores if same else await _scores(task, example, before, sandbox)
        scores[EARLIER + task.primary] = earlier[task.primary]
    return {**scores, **faithfulness(task, example, trajectory)}


async def _scores(task: Task, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> dict[str, Score]:
    scores = await awaited(task.score, example, trajectory, sandbox)
    if not isinstance(scores, Mapping) or not all(isinstance(each, Score) for each in scores.values()):
        raise ConfigurationError(f"{origin(task)}: score gave {scores!r:.80}, not a Score for the name of each metric")
    if scores and task.primary not in scores:
        names = ", ".join(scores)
        raise ConfigurationError(
            f"{origin(task)}: score gave {names}, and not {task.primary}, by which methods are ranked"
        )
    return dict(scores)


def before_checks(trajectory: Trajectory) -> Trajectory | None:
    """The trajectory as if it had ended with the answer before the checks; None without one."""
    notes = (step for step in trajectory.steps if isinstance(step, NoteStep) and step.name == BEFORE_CHECKS)
    text = next((note.data.get("text") for note in notes), None)
    if trajectory.answer is None or not isinstance(text, str):
        return None
    if text == trajectory.answer.text:
        return trajectory
    return trajectory.model_copy(update={"answer": trajectory.answer.model_copy(update={"text": text})})


def faithfulness(task: Task, example: Example, trajectory: Trajectory) -> Mapping[str, Score]:
    """The share of an answer's sentences that what was read supports; nothing where no passage was read.

    For answers in prose or phrases. Words are compared (`reground.support`), so it costs nothing and is the same for
    every method. It says nothing of what is right: a wrong document supports a wrong answer.
    """
    answer = trajectory.answer
    if answer is None or not states(task.form):
        return {}
    result = compared(answer, example.question, trajectory.steps)
    if not result.sentences:
        return {}
    why = "" if result.faithfulness is not None else "the answer claims nothing"
    return {FAITHFULNESS: Score(value=result.faithfulness, why=why)}
