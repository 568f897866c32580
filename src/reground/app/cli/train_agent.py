"""`reground train agent`: the Search Agent learns from its own trajectories, and becomes small."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from reground.app.cli.config import ConfigFile
from reground.app.cli.console import end_if_failed, listed, say
from reground.app.cli.flags import Command, flattened
from reground.app.cli.train import FitNamed, TrainingFolder, TrainingSplits, demonstrate, fit_named, opened_bench
from reground.app.options import DEFAULT_MODEL, Benchmark, Cluster, ModelName, Quiet
from reground.models.options import ModelOptions
from reground.training.settings import FILE, AgentLessons, Fitting

if TYPE_CHECKING:
    from reground.evaluation.results import Summary
    from reground.evaluation.task import Example, Task
    from reground.training.agent.mixture import Mixture

METHOD = "search_agent"
Style = Literal["rank", "judge"]

agent_app = typer.Typer(
    no_args_is_help=True,
    help="Train the Search Agent on its own trajectories: grow them, rank the samples of each step, mix what is "
    "taught, fit a model of the same size or smaller; all in one --out. `loop` runs them for several generations."
    "\n\nExample:  reground train agent grow --task hotpotqa_train --limit 160 --out runs/agent",
)


@dataclass(frozen=True, kw_only=True)
class AgentFolder(TrainingFolder):
    """The folder that the stages share."""

    out: Path = Path("runs/agent")


@dataclass(frozen=True, kw_only=True)
class AgentGrow(AgentFolder, Benchmark, Cluster):
    """The options of `train agent grow`."""

    limit: int = 160
    """The number of questions, drawn by the seed; 0 means all."""

    repeats: int = field(default=1, metadata={"min": 1})
    """Trajectories of each question."""


@dataclass(frozen=True, kw_only=True)
class AgentDemonstrate(AgentFolder, AgentLessons, TrainingSplits):
    """The options of `train agent demonstrate`."""


@dataclass(frozen=True, kw_only=True)
class AgentRank(AgentFolder, ModelName):
    """The options of `train agent rank`."""

    model: str = DEFAULT_MODEL
    """provider/model of the judge; see `reground models`."""

    style: Style = "rank"
    """Show all samples of a step at once, in rotated order, or judge each by itself."""

    concurrency: int = field(default=8, metadata={"short": "-j", "min": 1})
    """Steps in work at once."""

    model_options: ModelOptions = field(default_factory=ModelOptions)
    """Where and how to reach the model."""


@dataclass(frozen=True, kw_only=True)
class AgentMix(AgentFolder):
    """The options of `train agent mix`."""

    by: Literal["perplexity", "ranking", "chance"] = "perplexity"
    """What chooses a step's sample: the lowest perplexity, the ranking, or chance, as a control."""

    most: int | None = field(default=None, metadata={"min": 1, **FILE})
    """The most rows of what was grown; all by default."""

    add: str = ""
    """Files with other demonstrations to teach too, separated by commas, such as those of an oracle or of a reader.
    With them nothing needs to be grown."""

    seed: int = 0
    """Draws the rows and their order."""


@dataclass(frozen=True, kw_only=True)
class AgentFit(AgentFolder, FitNamed):
    """The options of `train agent fit`. Every generation begins with the base again."""

    out: Path = Path("runs/agent")


@dataclass(frozen=True, kw_only=True)
class AgentLoop(AgentGrow, Fitting):
    """The options of `train agent loop`."""

    generations: int = field(default=2, metadata={"min": 1})
    """How often the agent learns from its own trajectories."""

    bases: str = field(default="smollm2", metadata=FILE)
    """The weights to fit in every generation, separated by commas. The first base's model grows the next generation;
    the others are its students."""

    repeats: int = field(default=1, metadata={"min": 1})
    """Trajectories of each question from the second generation on; the first has one."""

    by: Literal["perplexity", "ranking"] = "ranking"
    """What chooses a step's sample: the lowest perplexity, or a ranking."""

    ranker: str | None = field(default=None, metadata=FILE)
    """provider/model of the judge of the samples; --model by default."""

    style: Style = field(default="rank", metadata=FILE)
    """Show all samples of a step at once, in rotated order, or judge each by itself."""

    judge: str | None = None
    """provider/model that rates long answers, as in `eval`."""

    validation: str | None = "bamboogle"
    """A benchmark that chooses among the passes of each fit and is measured; none keeps the last pass."""

    validation_limit: int = field(default=40, metadata={"min": 1, **FILE})
    """Its questions, drawn by the seed."""

    test_task: str | None = field(default=None, metadata=FILE)
    """A benchmark that chooses nothing and is measured at the end of each fit."""

    test_limit: int = field(default=100, metadata={"min": 1, **FILE})
    """Its questions, drawn by the seed."""

    measure_repeats: int = field(default=1, metadata={"min": 1, **FILE})
    """Trajectories of each measured question; with more than one, standard deviations are reported."""

    no_control: bool = field(default=False, metadata=FILE)
    """Do not fit the last base also on as many steps whose sample is drawn by chance."""

    no_untrained: bool = field(default=False, metadata=FILE)
    """Do not measure the bases before training, without an example in the prompt and with one."""

    threads: int | None = field(default=None, metadata=FILE)
    """Processor threads; those of the model, --threads, by default."""

    seed: int = 0
    """Draws the questions, and what is trained."""


@agent_app.command(cls=Command)
@flattened
def grow(order: AgentGrow, voice: Quiet, config: ConfigFile = None) -> None:
    """Let the agent answer training questions, and keep every step with its samples.

    An ordinary run in OUT/grown; gold answers only score it. The examples in its prompts rotate. The same command
    resumes an interrupted run. Exit code 3: some questions failed; the same command tries them again.

    Example:  reground train agent grow --task hotpotqa_train --limit 160 --model openai/my-model
    """
    from reground.evaluation.tasks import load_training_task
    from reground.training.agent.rank import GROWN, usable

    task = load_training_task(order.task, order.data)
    if order.dry_run:
        say(f"grow: {len(questions_of(order, task)) * order.repeats} trajectories")
        return
    summary = asyncio.run(grown_by(order, task, order.out, quiet=voice.quiet))
    say(f"trajectories in {order.out / GROWN}: {usable(order.out / GROWN).describe()}")
    end_if_failed(summary.failed)


@agent_app.command(name="demonstrate", cls=Command)
@flattened
def write_demonstrated(order: AgentDemonstrate, voice: Quiet, config: ConfigFile = None) -> None:
    """Write demonstrations: what an ideal agent does on training questions with gold passages.

    It searches for the question and then for gold pages that something names, copies the sentences that count, and
    gives the gold answer. No model is needed. The rows are in OUT/data/demonstrated.jsonl, for `mix --add`.

    Example:  reground train agent demonstrate --tasks hotpotqa_train --limit 200 --out runs/agent
    """
    from reground.training.agent.rank import DEMONSTRATED
    from reground.training.oracles import agent_demonstrations

    oracle = partial(agent_demonstrations, settings=order)
    questions = f"{DEMONSTRATED}.json"  # questions.json names those that are grown
    demonstrate(order, oracle, method=METHOD, name=DEMONSTRATED, questions=questions, quiet=voice.quiet)


@agent_app.command(cls=Command)
@flattened
def rank(order: AgentRank, voice: Quiet, config: ConfigFile = None) -> None:
    """Have a model rank the samples of each step; the trajectories stay as they are.

    The same command resumes an interrupted ranking.

    Example:  reground train agent rank --model openai/my-larger-model
    """
    from reground.training.agent.rank import RANKING, rankable

    if order.dry_run:
        say(f"rank: {len(rankable(order.out))} steps")
        return
    ranked, unread = asyncio.run(ranked_by(order, quiet=voice.quiet))
    say(f"{ranked} steps in {order.out / RANKING}; {unread} rankings could not be read")


@agent_app.command(cls=Command)
@flattened
def mix(order: AgentMix, voice: Quiet, config: ConfigFile = None) -> None:
    """Make the training data of the grown steps: one conversation a step, without examples in its prompt.

    They are written to OUT/data/mixture.jsonl. --add FILE adds demonstrations from elsewhere.

    Example:  reground train agent mix --by ranking
    """
    from reground.training.agent.rank import MIXTURE, write_mixture

    made = mixed_by(order)
    say(made.describe())
    if not order.dry_run:
        write_mixture(order.out, MIXTURE, made)


@agent_app.command(cls=Command)
@flattened
def fit(order: AgentFit, voice: Quiet, config: ConfigFile = None) -> None:
    """Fine-tune a model on the mixture; rows that are longer than max_length are left out.

    The result, OUT/NAME, is used as --model hf/OUT/NAME with --set shots=0. The same command resumes an interrupted
    fit.

    Example:  reground train agent fit --base smollm2
    """
    from reground.training.agent.rank import MIXTURE

    # without the beginning of its prompt, a step is another one
    if (place := fit_named(order, MIXTURE, "steps", quiet=voice.quiet, cut=False)) is not None:
        say(f"the agent is in {place}: --model hf/{place} --set shots=0")


@agent_app.command(cls=Command)
@flattened
def loop(order: AgentLoop, voice: Quiet, config: ConfigFile = None) -> None:
    """Run all stages for several generations, measure every agent, and write the tables: OUT/report.md.

    The prompted model grows the first generation. Every base is fitted on each generation's steps, from its own
    weights again; the first base's model grows the next generation. A configuration file can hold the whole plan. The
    same command resumes. Exit code 3: some questions failed; the same command tries them again.

    Example:  reground train agent loop --task hotpotqa_train --bases qwen2.5-coder-0.5b,smollm2 --config loop.toml
    """
    from reground.app.cli.train_agent_loop import run_loop

    failed = run_loop(order, quiet=voice.quiet)
    if not order.dry_run:
        say(f"written: {order.out / 'report.md'}")
    end_if_failed(failed, "the same command tries those again on which nothing was built yet")


async def grown_by(order: AgentGrow, task: Task, out: Path, *, quiet: bool) -> Summary:
    """Grow trajectories in OUT/grown, with the exemplars rotated, and write down their questions."""
    from reground.training.agent.rank import GROWN
    from reground.training.rows import record_questions

    rotated = replace(order, settings={"exemplars": "rotated", **order.settings})
    record_questions(out, task.name, questions_of(order, task))
    return await answered_by(rotated, task, out / GROWN, quiet=quiet)


def questions_of(order: AgentGrow, task: Task) -> list[Example]:
    """The questions that a run draws."""
    from reground.evaluation.runner import EvalSettings, choose

    return choose(task, EvalSettings(METHOD, order.model, limit=order.limit or None, seed=order.seed))


async def answered_by(order: AgentGrow, task: Task, run: Path, *, quiet: bool) -> Summary:
    """Let the agent answer the task's questions, in the run folder `run`; those that failed before, once more."""
    from reground.app.cli.progress import Progress, Work
    from reground.evaluation.compare import Cell
    from reground.evaluation.runner import EvalSettings, evaluate

    cell = Cell(method=METHOD, tokens=order.budget.tokens)
    base = EvalSettings(
        METHOD, order.model, limit=order.limit or None, seed=order.seed, concurrency=order.concurrency,
        repeats=order.repeats, retry_failed=True,
    )  # fmt: skip
    total = len(questions_of(order, task)) * order.repeats
    async with opened_bench(order, task, [METHOD], run, quiet=quiet) as (bench, configured):
        ready = configured(cell, base)
        with Progress(shown=not quiet) as progress:
            progress.plan({run.name: Work(cell, total)})
            done = await evaluate(
                bench.task, ready.method, ready.settings, run, observer=partial(progress.on_run, run.name),
                elsewhere=ready.elsewhere,
            )  # fmt: skip
    return done.summary


async def ranked_by(order: AgentRank, *, quiet: bool) -> tuple[int, int]:
    """Rank the samples of each step. Returns the number ranked, and that of unread rankings."""
    from reground.app.cli.progress import Progress, opened_model
    from reground.training.agent.rank import Ranker
    from reground.training.agent.rank import rank as rank_steps

    async with opened_model(order.model, order.model_options, quiet=quiet) as model:
        with Progress("ranking", shown=not quiet) as progress:
            ranker = Ranker(model=model, style=order.style)
            on_turn = partial(progress.count, unit="steps")
            return await rank_steps(order.out, ranker, concurrency=order.concurrency, on_turn=on_turn)


def mixed_by(order: AgentMix) -> Mixture:
    """The mixture of the grown steps and of the rows added to them, not written yet."""
    from reground.training.agent.mixture import Mixture, mixture
    from reground.training.agent.rank import GROWN, failed_steps, grown, read_ranking_file, stated
    from reground.training.rows import Demonstration, read_rows

    added = [row for file in listed(order.add) for row in read_rows(Path(file), Demonstration)]
    if added and not (order.out / GROWN).is_dir():
        return Mixture([]).adding(added)
    ranking = read_ranking_file(order.out) if order.by == "ranking" else None
    made = mixture(grown(order.out), stated(order.out), by=order.by, ranking=ranking, seed=order.seed, most=order.most)
    if failed := failed_steps(order.out):
        made.dropped["of failed questions"] = failed
    return made.adding(added)


def register(train: typer.Typer) -> None:
    """Add the commands of this file."""
    train.add_typer(agent_app, name="agent")
