"""`reground train agent`: the Search Agent learns from its own trajectories, and becomes small."""

from __future__ import annotations

import asyncio
import dataclasses
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

import typer

from reground.app.cli import train
from reground.app.cli.console import end_if_failed, listed, say
from reground.app.cli.flags import ConfigFile
from reground.app.cli.progress import opened_model
from reground.app.options import DEFAULT_MODEL, Benchmark, Cluster, ModelName
from reground.core.errors import ConfigurationError
from reground.evaluation.compare import Cell
from reground.evaluation.results import Summary, has_begun, read_run
from reground.evaluation.runner import choose
from reground.evaluation.task import Example, Task
from reground.evaluation.tasks import load_training_task
from reground.models.options import ModelOptions
from reground.training import agent as steps
from reground.training.agent import GROWN, MIXTURE, RANKING, By, Style, usable
from reground.training.fitting import begin
from reground.training.rows import Demonstration, read_rows, record_questions, write_demonstrations
from reground.training.settings import FILE, Fitting

METHOD = "search_agent"

agent_app = typer.Typer(
    no_args_is_help=True,
    help="Train the Search Agent on its own trajectories: grow them, rank the samples of each step, mix what is "
    "taught, fit a model of the same size or smaller; all in one --out. `loop` runs them for several generations."
    "\n\nExample:  reground train agent grow --task hotpotqa_train --limit 160 --out runs/agent",
)


@dataclass(frozen=True, kw_only=True)
class AgentFolder(train.TrainingFolder):
    """The folder that the stages share."""

    out: Path = Path("runs/agent")

    @property
    def mixture(self) -> Path:
        """The file of the mixture."""
        return self.out / "data" / f"{MIXTURE}.jsonl"


@dataclass(frozen=True, kw_only=True)
class AgentGrow(AgentFolder, Benchmark, Cluster):
    """The options of `train agent grow`."""

    limit: int = 160
    """The number of questions, drawn by the seed; 0 means all."""
    repeats: int = field(default=1, metadata={"min": 1})
    """Trajectories of each question."""


@train.stage(agent_app, "task", "corpus", "model", "limit", "repeats", "settings", "out", "dry_run", "quiet")
def grow(options: AgentGrow, config: ConfigFile = None) -> None:
    """Let the agent answer training questions, and keep every step with its samples.

    An ordinary run in OUT/grown; gold answers only score it. The examples in its prompts rotate. The same command
    resumes an interrupted run. Exit code 3: some questions failed; the same command tries them again.

    Example:  reground train agent grow --task hotpotqa_train --limit 160 --model openai/my-model
    """
    task = load_training_task(options.task, options.data)
    if options.dry_run:
        say(f"grow: {len(questions_of(options, task)) * options.repeats} trajectories")
        return
    summary = grown_by(options, task, options.out)
    run = options.out / GROWN
    say(f"trajectories in {run}: {usable(run)}")
    end_if_failed(summary.failed)


def questions_of(options: AgentGrow, task: Task) -> list[Example]:
    """The questions that a run draws."""
    return choose(task, train.settings_of(options, METHOD))


def grown_by(options: AgentGrow, task: Task, out: Path) -> Summary:
    """Grow trajectories in OUT/grown, with the exemplars rotated, and write down their questions.

    Questions that failed before are tried once more.
    """
    rotated = replace(options, settings={"exemplars": "rotated", **options.settings})
    cell = Cell(method=METHOD, tokens=options.budget.tokens)
    (summary,) = asyncio.run(train.run_cells(rotated, task, {out / GROWN: cell}))
    record_questions(out, task.name, questions_of(options, task))
    return summary


@dataclass(frozen=True, kw_only=True)
class AgentRank(AgentFolder, ModelName):
    """The options of `train agent rank`."""

    model: str = DEFAULT_MODEL
    """provider/model of the judge; see `reground models`."""
    style: Style = field(default="rank", metadata=FILE)
    """Show all samples of a step at once, in rotated order, or judge each by itself."""
    concurrency: int = field(default=8, metadata={"short": "-j", "min": 1})
    """Steps in work at once."""
    model_options: ModelOptions = field(default_factory=ModelOptions)
    """Where and how to reach the model."""


@train.stage(agent_app)
def rank(options: AgentRank, config: ConfigFile = None) -> None:
    """Have a model rank the samples of each step; the trajectories stay as they are.

    The same command resumes an interrupted ranking.

    Example:  reground train agent rank --model openai/my-larger-model
    """
    if options.dry_run:
        say(f"rank: {len(steps.rankable(options.out))} steps")
        return

    async def ranked() -> tuple[int, int]:
        async with opened_model(options.model, options.model_options, quiet=options.quiet) as model:
            with options.progress("ranking") as progress:
                ranker = steps.Ranker(model=model, style=options.style)
                on_turn = partial(progress.count, unit="steps")
                return await steps.rank(options.out, ranker, concurrency=options.concurrency, on_turn=on_turn)

    number, unread = asyncio.run(ranked())
    say(f"{number} steps in {options.out / RANKING}; {unread} rankings could not be read")


@dataclass(frozen=True, kw_only=True)
class AgentMix(AgentFolder):
    """The options of `train agent mix`."""

    by: By = "perplexity"
    """What chooses a step's sample: the lowest perplexity, the ranking, or chance, as a control."""
    most: int | None = field(default=None, metadata={"min": 1, **FILE})
    """The most rows of what was grown; all by default."""
    add: str = ""
    """Files with other demonstrations to teach too, separated by commas, such as those of an oracle or of a reader.
    With them nothing needs to be grown."""
    seed: int = 0
    """Draws the rows and their order."""


@train.stage(agent_app)
def mix(options: AgentMix, config: ConfigFile = None) -> None:
    """Make the training data of the grown steps: one conversation a step, without examples in its prompt.

    They are written to OUT/data/mixture.jsonl. --add FILE adds demonstrations from elsewhere.

    Example:  reground train agent mix --by ranking
    """
    out = options.out
    added = [row for file in listed(options.add) for row in read_rows(Path(file), Demonstration)]
    has_run = not added or (out / GROWN).is_dir()
    mixture = steps.mixture(
        steps.grown_turns(out) if has_run else (),
        steps.answer_rows(out) if has_run else (),
        by=options.by,
        ranking=steps.read_ranking_file(out) if has_run and options.by == "ranking" else None,
        seed=options.seed,
        most=options.most,
        added=added,
    )
    if failed := sum(1 for _ in steps.grown_turns(out, failed=True)) if has_run else 0:
        mixture.dropped["of failed questions"] = failed
    say(mixture.describe())
    if not options.dry_run:
        write_demonstrations(options.mixture, mixture.rows)


@dataclass(frozen=True, kw_only=True)
class AgentFit(AgentFolder, train.FitNamed):
    """The options of `train agent fit`. Every generation begins with the base again."""


@train.stage(agent_app, *train.FIT)
def fit(options: AgentFit, config: ConfigFile = None) -> None:
    """Fine-tune a model on the mixture; rows that are longer than max_length are left out.

    The result, OUT/NAME, is used as --model hf/OUT/NAME with --set shots=0. The same command resumes an interrupted
    fit.

    Example:  reground train agent fit --base smollm2
    """
    # without the beginning of its prompt, a step is another one
    train.fit_data(options, MIXTURE, "steps", "--model hf/{} --set shots=0", truncate=False)


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
    threads: int | None = field(default=None, metadata=FILE)
    """Processor threads; those of the model, --threads, by default."""
    seed: int = 0
    """Draws the questions, and what is trained."""


@train.stage(
    agent_app, *("task", "corpus", "model", "generations", "repeats", "by", "limit", "out", "dry_run", "quiet")
)
def loop(options: AgentLoop, config: ConfigFile = None) -> None:
    """Run all stages for several generations.

    The prompted model grows the first generation. Every base is fitted on each generation's steps, from its own
    weights again; the first base's model grows the next generation. `reground eval` measures them. A configuration file
    can hold the whole plan. The same command resumes. Exit code 3: some questions failed; the same command tries them
    again.

    Example:  reground train agent loop --task hotpotqa_train --config loop.toml
    """
    end_if_failed(run_loop(options), "the same command tries those again on which nothing was built yet")


_MAY_CHANGE = frozenset({"out", "dry_run", "quiet", "concurrency", "model_options", "generations", "bases"})
"""Options that a resumed loop may be given another value of: what is finished stays as it is."""


def run_loop(options: AgentLoop) -> int:
    """Run all stages, or in a dry run name them. Returns the number of failed questions.

    Raises ConfigurationError for a plan that cannot be carried out, and typer.Exit where growing goes on only after the
    same command has tried failed questions again.
    """
    bases = bases_of(options)
    if not options.dry_run:
        load_training_task(options.task, options.data)  # a wrong one is refused before the folder is of it
        _check_plan(options)
    failed, model = 0, options.model
    for number in range(1, options.generations + 1):
        folder = options.out / f"gen{number}"
        growing = growing_of(options, number, model)
        if _begins(options, f"{folder.name}: grow with {model}, {growing.repeats} a question"):
            failed += grow_again(growing, load_training_task(options.task, options.data))
        ranks = options.by == "ranking" and _begins(options, f"{folder.name}: rank the samples of each step")
        if ranks and not (folder / RANKING).exists():
            rank(ranking_of(options, folder))
        mixing = AgentMix(out=folder, by=options.by, seed=options.seed)
        if _begins(options, f"{folder.name}: make the {MIXTURE}, by {options.by}"):
            mix(mixing)
        for name, base in bases.items():
            if _begins(options, f"{folder.name}: fit {base} as {name}") and not (folder / name).is_dir():
                rows = read_rows(mixing.mixture, Demonstration)
                train.fit_rows(options, rows, out=folder, name=name, base=base, truncate=False)
        model = f"hf/{folder / next(iter(bases))}"
    return failed


def _check_plan(options: AgentLoop) -> None:
    """Record what each stage is done with. Raises ConfigurationError where one that has begun had other settings."""
    ranked, fitted = {"by", "ranker", "style"}, {each.name for each in dataclasses.fields(Fitting)} - {"seed"}
    others = {each.name for each in dataclasses.fields(options)} - _MAY_CHANGE - ranked - fitted
    underway = {
        "grow": has_begun(options.out / "gen1" / GROWN),
        "rank": any(options.out.glob(f"gen*/{RANKING}")),
        "fit": any(options.out.glob("gen*/fit/*/checkpoint-*")) or any(options.out.glob("gen*/*/*.safetensors")),
    }
    for stage, names in (("grow", others), ("rank", ranked), ("fit", fitted)):
        fixed = {name: str(getattr(options, name)) for name in sorted(names)}
        begin(options.out / "plan" / stage, fixed, fresh=not underway[stage], instead="give another --out")


def bases_of(options: AgentLoop) -> dict[str, str]:
    """The bases by their short names, in order. Raises ConfigurationError where there is none, or two have one name."""
    bases = listed(options.bases)
    by_name = {Path(base).name: base for base in bases}
    if not bases:
        raise ConfigurationError('name at least one base to fit, as in bases = "smollm2" in reground.toml')
    if len(by_name) < len(bases):
        raise ConfigurationError(f"two bases have the same name: {', '.join(bases)}")
    return by_name


def _begins(options: AgentLoop, text: str) -> bool:
    """Say what a stage does. Returns whether to do it."""
    say(text)
    return not options.dry_run


def grow_again(options: AgentLoop, task: Task) -> int:
    """Collect a generation's trajectories. Returns the number of failed questions.

    These are tried again as long as nothing was built on the others. Raises typer.Exit where that may change something.
    """
    folder = options.out
    before = read_run(folder / GROWN).summary() if (folder / GROWN / "summary.json").exists() else None
    before = before if before is not None and before.finished else None
    is_used = (folder / RANKING).exists() or (folder / "data").exists()
    if before is not None and (is_used or not before.failed):
        summary = before
    else:
        summary = grown_by(options, task, folder)
        if before is None or summary.failed < before.failed:
            end_if_failed(summary.failed)
    say(f"  {usable(folder / GROWN)}" + (f"; {summary.failed} questions failed" * bool(summary.failed)))
    return summary.failed


def growing_of(options: AgentLoop, number: int, model: str) -> AgentLoop:
    """The options of a generation's growing. From the second one on, the agent has learnt to do without exemplars.

    The first has one trajectory of each question.
    """
    out, of_model = options.out / f"gen{number}", _model_options(options, number == 1)
    own = replace(options, model=model, out=out, model_options=of_model)
    return replace(own, repeats=1) if number == 1 else replace(own, settings={**own.settings, "shots": 0})


def ranking_of(options: AgentLoop, folder: Path) -> AgentRank:
    """The options of a ranking."""
    model = options.ranker or options.model
    return AgentRank(
        out=folder,
        quiet=options.quiet,
        model=model,
        style=options.style,
        concurrency=options.concurrency,
        model_options=_model_options(options, model == options.model),
    )


def _model_options(options: AgentLoop, prompted: bool) -> ModelOptions:
    """The adapter and the price are those of the prompted model. prompted: whether the options are for it."""
    return options.model_options if prompted else replace(options.model_options, adapter=None, price=None)
