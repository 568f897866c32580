"""`reground train agent`: the Search Agent learns from its own trajectories, and becomes small."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import typer

from reground.app.cli.config import ConfigFile
from reground.app.cli.console import end_if_failed, listed, say
from reground.app.cli.flags import Command, everyday, flattened
from reground.app.cli.progress import Progress, opened_model
from reground.app.cli.train import (
    FitNamed,
    TrainingFolder,
    TrainingSplits,
    demonstrate,
    fit_data,
    run_cells,
    settings_of,
)
from reground.app.options import DEFAULT_MODEL, Benchmark, Cluster, ModelName, Quiet
from reground.evaluation.compare import Cell
from reground.evaluation.results import Summary
from reground.evaluation.runner import choose
from reground.evaluation.task import Example, Task
from reground.evaluation.tasks import load_training_task
from reground.models.options import ModelOptions
from reground.training.agent import rank as ranking
from reground.training.agent.mixture import Mixture, mixture
from reground.training.rows import Demonstration, read_rows, record_questions
from reground.training.settings import FILE, AgentLessons, Fitting

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

    judge: str | None = field(default=None, metadata=FILE)
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
@everyday("task", "corpus", "model", "limit", "repeats", "settings", "out", "dry_run", "quiet")
@flattened
def grow(order: AgentGrow, voice: Quiet, config: ConfigFile = None) -> None:
    """Let the agent answer training questions, and keep every step with its samples.

    An ordinary run in OUT/grown; gold answers only score it. The examples in its prompts rotate. The same command
    resumes an interrupted run. Exit code 3: some questions failed; the same command tries them again.

    Example:  reground train agent grow --task hotpotqa_train --limit 160 --model openai/my-model
    """
    task = load_training_task(order.task, order.data)
    if order.dry_run:
        say(f"grow: {len(questions_of(order, task)) * order.repeats} trajectories")
        return
    summary = grown_by(order, task, order.out, quiet=voice.quiet)
    run = order.out / ranking.GROWN
    say(f"trajectories in {run}: {ranking.usable(run).describe()}")
    end_if_failed(summary.failed)


@agent_app.command(name="demonstrate", cls=Command)
@flattened
def write_demonstrated(order: AgentDemonstrate, voice: Quiet, config: ConfigFile = None) -> None:
    """Write demonstrations: what an ideal agent does on training questions with gold passages.

    It searches for the question and then for gold pages that something names, copies the sentences that count, and
    gives the gold answer. No model is needed. The rows are in OUT/data/demonstrated.jsonl, for `mix --add`.

    Example:  reground train agent demonstrate --tasks hotpotqa_train --limit 200 --out runs/agent
    """
    # questions.json names those that are grown
    demonstrate(order, method=METHOD, name="demonstrated", questions="demonstrated.json", quiet=voice.quiet)


@agent_app.command(cls=Command)
@flattened
def rank(order: AgentRank, voice: Quiet, config: ConfigFile = None) -> None:
    """Have a model rank the samples of each step; the trajectories stay as they are.

    The same command resumes an interrupted ranking.

    Example:  reground train agent rank --model openai/my-larger-model
    """
    if order.dry_run:
        say(f"rank: {len(ranking.rankable(order.out))} steps")
        return
    ranked, unread = asyncio.run(ranked_by(order, quiet=voice.quiet))
    say(f"{ranked} steps in {order.out / ranking.RANKING}; {unread} rankings could not be read")


@agent_app.command(cls=Command)
@flattened
def mix(order: AgentMix, voice: Quiet, config: ConfigFile = None) -> None:
    """Make the training data of the grown steps: one conversation a step, without examples in its prompt.

    They are written to OUT/data/mixture.jsonl. --add FILE adds demonstrations from elsewhere.

    Example:  reground train agent mix --by ranking
    """
    made = mixed_by(order)
    say(made.describe())
    if not order.dry_run:
        ranking.write_mixture(order.out, ranking.MIXTURE, made)


@agent_app.command(cls=Command)
@everyday("base", "name", "epochs", "learning_rate", "lora_rank", "precision", "out", "dry_run", "fresh", "quiet")
@flattened
def fit(order: AgentFit, voice: Quiet, config: ConfigFile = None) -> None:
    """Fine-tune a model on the mixture; rows that are longer than max_length are left out.

    The result, OUT/NAME, is used as --model hf/OUT/NAME with --set shots=0. The same command resumes an interrupted
    fit.

    Example:  reground train agent fit --base smollm2
    """
    # without the beginning of its prompt, a step is another one
    fit_data(order, ranking.MIXTURE, "steps", "--model hf/{} --set shots=0", quiet=voice.quiet, cut=False)


@agent_app.command(cls=Command)
@everyday("task", "corpus", "model", "generations", "repeats", "by", "validation", "limit", "out", "dry_run", "quiet")
@flattened
def loop(order: AgentLoop, voice: Quiet, config: ConfigFile = None) -> None:
    """Run all stages for several generations, measure every agent, and write the tables: OUT/report.md.

    The prompted model grows the first generation. Every base is fitted on each generation's steps, from its own
    weights again; the first base's model grows the next generation. A configuration file can hold the whole plan. The
    same command resumes. Exit code 3: some questions failed; the same command tries them again.

    Example:  reground train agent loop --task hotpotqa_train --config loop.toml
    """
    from reground.app.cli.train_agent_loop import run_loop

    failed = run_loop(order, quiet=voice.quiet)
    if not order.dry_run:
        say(f"written: {order.out / 'report.md'}")
    end_if_failed(failed, "the same command tries those again on which nothing was built yet")


def grown_by(order: AgentGrow, task: Task, out: Path, *, quiet: bool) -> Summary:
    """Grow trajectories in OUT/grown, with the exemplars rotated, and write down their questions."""
    rotated = replace(order, settings={"exemplars": "rotated", **order.settings})
    record_questions(out, task.name, questions_of(order, task))
    return answered_by(rotated, task, out / ranking.GROWN, quiet=quiet)


def questions_of(order: AgentGrow, task: Task) -> list[Example]:
    """The questions that a run draws."""
    return choose(task, settings_of(order, METHOD))


def answered_by(order: AgentGrow, task: Task, run: Path, *, quiet: bool) -> Summary:
    """Let the agent answer the task's questions, in the run folder `run`; those that failed before, once more."""
    cell = Cell(method=METHOD, tokens=order.budget.tokens)
    (summary,) = asyncio.run(run_cells(order, task, {run: cell}, quiet=quiet))
    return summary


async def ranked_by(order: AgentRank, *, quiet: bool) -> tuple[int, int]:
    """Rank the samples of each step. Returns the number ranked, and that of unread rankings."""
    async with opened_model(order.model, order.model_options, quiet=quiet) as model:
        with Progress("ranking", shown=not quiet) as progress:
            ranker = ranking.Ranker(model=model, style=order.style)
            return await ranking.rank(
                order.out, ranker, concurrency=order.concurrency,
                on_turn=lambda done, total: progress.count(done, total, "steps"),
            )  # fmt: skip


def mixed_by(order: AgentMix) -> Mixture:
    """The mixture of the grown steps and of the rows added to them, not written yet."""
    added = [row for file in listed(order.add) for row in read_rows(Path(file), Demonstration)]
    if added and not (order.out / ranking.GROWN).is_dir():
        return Mixture([]).adding(added)
    ranks = ranking.read_ranking_file(order.out) if order.by == "ranking" else None
    turns, stated = ranking.grown(order.out), ranking.stated(order.out)
    made = mixture(turns, stated, by=order.by, ranking=ranks, seed=order.seed, most=order.most)
    if failed := ranking.failed_steps(order.out):
        made.dropped["of failed questions"] = failed
    return made.adding(added)


def register(train: typer.Typer) -> None:
    """Add the commands of this file."""
    train.add_typer(agent_app, name="agent")
