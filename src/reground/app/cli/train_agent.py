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
from reground.evaluation.results import Summary, read_run
from reground.evaluation.runner import choose
from reground.evaluation.task import Example, Task
from reground.evaluation.tasks import load_training_task
from reground.models.options import ModelOptions
from reground.training import agent as steps
from reground.training.agent import GROWN, MIXTURE, RANKING, UNRANKED, By, Style, usable
from reground.training.fitting import begin
from reground.training.rows import Demonstration, read_rows, record_questions, write_demonstrations
from reground.training.settings import FILE, AgentLessons, Fitting

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

    def rows(self, name: str) -> Path:
        """The file of a mixture."""
        return self.out / "data" / f"{name}.jsonl"


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
    say(f"trajectories in {run}: {usable(run).describe()}")
    end_if_failed(summary.failed)


def questions_of(options: AgentGrow, task: Task) -> list[Example]:
    """The questions that a run draws."""
    return choose(task, train.settings_of(options, METHOD))


def grown_by(options: AgentGrow, task: Task, out: Path) -> Summary:
    """Grow trajectories in OUT/grown, with the exemplars rotated, and write down their questions.

    Questions that failed before are tried once more.
    """
    rotated = replace(options, settings={"exemplars": "rotated", **options.settings})
    record_questions(out, task.name, questions_of(options, task))
    cell = Cell(method=METHOD, tokens=options.budget.tokens)
    (summary,) = asyncio.run(train.run_cells(rotated, task, {out / GROWN: cell}))
    return summary


@dataclass(frozen=True, kw_only=True)
class AgentDemonstrate(AgentFolder, AgentLessons, train.TrainingSplits):
    """The options of `train agent demonstrate`."""


@train.stage(agent_app)
def demonstrate(options: AgentDemonstrate, config: ConfigFile = None) -> None:
    """Write demonstrations: what an ideal agent does on training questions with gold passages.

    It searches for the question and then for gold pages that something names, copies the sentences that count, and
    gives the gold answer. No model is needed. The rows are in OUT/data/demonstrated.jsonl, for `mix --add`.

    Example:  reground train agent demonstrate --tasks hotpotqa_train --limit 200 --out runs/agent
    """
    # questions.json names those that are grown
    train.demonstrate(options, method=METHOD, name="demonstrated", questions="demonstrated.json")


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
    mix_as(options, MIXTURE)


def mix_as(options: AgentMix, name: str) -> None:
    """Write the mixture of the grown steps and of the rows added to them to OUT/data/NAME.jsonl."""
    out = options.out
    added = [row for file in listed(options.add) for row in read_rows(Path(file), Demonstration)]
    grown = not added or (out / GROWN).is_dir()
    made = steps.mixture(
        steps.grown(out) if grown else (),
        steps.stated(out) if grown else (),
        by=options.by,
        ranking=steps.read_ranking_file(out) if grown and options.by == "ranking" else None,
        seed=options.seed,
        most=options.most,
        added=added,
    )
    if failed := sum(1 for _ in steps.grown(out, failed=True)) if grown else 0:
        made.dropped["of failed questions"] = failed
    say(made.describe())
    if not options.dry_run:
        write_demonstrations(options.rows(name), made.rows)


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
    train.fit_data(options, MIXTURE, "steps", "--model hf/{} --set shots=0", cut=False)


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
    no_control: bool = field(default=False, metadata=FILE)
    """Do not fit the last base also on as many steps whose sample is drawn by chance."""
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
    failed = run_loop(options)
    end_if_failed(failed, "the same command tries those again on which nothing was built yet")


_MAY_CHANGE = frozenset({"out", "dry_run", "quiet", "concurrency", "model_options", "generations", "bases"})
"""Options that a resumed loop may be given another value of: what is finished stays as it is."""


def run_loop(options: AgentLoop) -> int:
    """Run all stages, or in a dry run name them. Returns the number of failed questions.

    Raises ConfigurationError for a plan that cannot be carried out, and typer.Exit where growing goes on only after the
    same command has tried failed questions again.
    """
    plan = Loop(options)
    if not options.dry_run:
        plan.task = load_training_task(options.task, options.data)
        settings = {each.name: str(getattr(options, each.name)) for each in dataclasses.fields(options)}
        fixed = {name: settings[name] for name in sorted(settings.keys() - _MAY_CHANGE)}
        begin(options.out / "fit" / "loop", fixed, instead="give another --out")
    plan.run()
    return plan.failed


@dataclass
class Loop:
    """The stages. task: the questions to train on; a dry run needs none."""

    options: AgentLoop
    task: Task | None = None
    failed: int = 0

    def __post_init__(self) -> None:
        self.bases = [name.strip() for name in self.options.bases.split(",")]
        if not all(self.bases):
            raise ConfigurationError('name at least one base to fit, as in bases = "smollm2" in reground.toml')
        if len({Path(base).name for base in self.bases}) < len(self.bases):
            raise ConfigurationError(f"two bases have the same name: {', '.join(self.bases)}")

    def run(self) -> None:
        """All stages, in order."""
        model = self.options.model
        for number in range(1, self.options.generations + 1):
            model = self._generation(number, model)

    def _generation(self, number: int, model: str) -> str:
        """Grow and fit once. Returns the model that grows the next generation."""
        folder = self.options.out / f"gen{number}"
        self.grow(folder, self.growing(number, model, folder))
        if self.options.by == "ranking":
            self.rank(folder)
        self.mix(folder, MIXTURE, self.options.by)
        names = [Path(base).name for base in self.bases]
        for base, name in zip(self.bases, names, strict=True):
            self.fit(folder, MIXTURE, base, name)
        if not self.options.no_control:
            self.mix(folder, UNRANKED, "chance", like=MIXTURE)
            self.fit(folder, UNRANKED, self.bases[-1], f"{names[-1]}-{UNRANKED}")
        return f"hf/{folder / names[0]}"

    def grow(self, folder: Path, options: AgentLoop) -> None:
        """Collect trajectories with the options of a generation."""
        if not self._begins(f"{folder.name}: grow with {options.model}, {options.repeats} a question"):
            return
        run = folder / GROWN
        before = _ended(run)
        begun = (folder / RANKING).exists() or (folder / "data").exists()
        if before is not None and (begun or not before.failed):
            summary = before
        else:
            assert self.task is not None
            summary = grown_by(options, self.task, folder)
            if before is None or summary.failed < before.failed:  # else trying them again changes nothing
                end_if_failed(summary.failed)
        self.failed += summary.failed
        say(f"  {usable(run).describe()}" + (f"; {summary.failed} questions failed" if summary.failed else ""))

    def rank(self, folder: Path) -> None:
        """Rank the samples of each step."""
        if self._begins(f"{folder.name}: rank the samples of each step") and not (folder / RANKING).exists():
            rank(self.ranking(folder))

    def mix(self, folder: Path, name: str, by: By, like: str | None = None) -> None:
        """Make data/`name`.jsonl. like: the mixture whose number of rows it may not exceed."""
        if self._begins(f"{folder.name}: make the data {name}, by {by}"):
            most = None if like is None else len(_rows(folder, like))
            mix_as(AgentMix(out=folder, by=by, most=most, seed=self.options.seed), name)

    def fit(self, folder: Path, rows: str, base: str, name: str) -> None:
        """Fine-tune a base on a mixture; the result is folder/name."""
        if self._begins(f"{folder.name}: fit {base} on {rows} as {name}") and not (folder / name).is_dir():
            train.fit_rows(self.options, _rows(folder, rows), out=folder, name=name, base=base, cut=False)

    def growing(self, number: int, model: str, folder: Path) -> AgentLoop:
        """The options of a generation's growing. From the second one on, the agent has learnt to do without exemplars.

        The first has one trajectory of each question.
        """
        own = replace(self.options, model=model, out=folder, model_options=self._model_options(number == 1))
        if number == 1:
            return replace(own, repeats=1)
        return replace(own, settings={**own.settings, "shots": 0})

    def ranking(self, folder: Path) -> AgentRank:
        """The options of a ranking."""
        options = self.options
        model = options.ranker or options.model
        return AgentRank(
            out=folder,
            quiet=options.quiet,
            model=model,
            style=options.style,
            concurrency=options.concurrency,
            model_options=self._model_options(model == options.model),
        )

    def _model_options(self, prompted: bool) -> ModelOptions:
        """The adapter and the price are those of the prompted model. prompted: whether the options are for it."""
        options = self.options.model_options
        return options if prompted else replace(options, adapter=None, price=None)

    def _begins(self, text: str) -> bool:
        """Say what a stage does. Returns whether to do it."""
        say(text)
        return not self.options.dry_run


def _rows(folder: Path, name: str) -> list[Demonstration]:
    return read_rows(AgentMix(out=folder).rows(name), Demonstration)


def _ended(run: Path) -> Summary | None:
    """A run's results, if every question was run; some may have failed."""
    if not (run / "summary.json").exists():
        return None
    summary = read_run(run).summary()
    return summary if summary is not None and summary.finished else None
