"""`reground train agent`: the Search Agent learns from its own trajectories, and becomes small."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Iterator, Sequence
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
    fit_rows,
    run_cells,
    settings_of,
)
from reground.app.options import DEFAULT_MODEL, Benchmark, Cluster, ModelName, Quiet
from reground.core.errors import ConfigurationError, MissingExtra
from reground.evaluation.compare import Cell
from reground.evaluation.questions import without
from reground.evaluation.results import Summary, read_run
from reground.evaluation.runner import choose
from reground.evaluation.task import Example, Task
from reground.evaluation.tasks import load_task, load_training_task
from reground.models.options import ModelOptions
from reground.training.agent import rank as ranking
from reground.training.agent.loop import (
    UNRANKED,
    Agent,
    Measure,
    Measured,
    Split,
    keep,
    kept,
    plot_generations,
    size_of,
    tables,
)
from reground.training.agent.mixture import By, Mixture, mixture
from reground.training.agent.rank import GROWN, MIXTURE, RANKING, read_mixture, usable, write_mixture
from reground.training.fitting import begin
from reground.training.report import write_section
from reground.training.rows import Demonstration, read_rows, record_questions
from reground.training.settings import FILE, AgentLessons, Fitting
from reground.training.sft import epochs_of

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


_MAY_CHANGE = frozenset({"out", "dry_run", "concurrency", "model_options", "generations", "bases"})
"""Options that a resumed loop may be given another value of: what is finished stays as it is."""


def run_loop(order: AgentLoop, *, quiet: bool) -> int:
    """Run all stages, or in a dry run name them. Returns the number of failed questions.

    Raises ConfigurationError for a plan that cannot be carried out, and typer.Exit where growing goes on only after the
    same command has tried failed questions again.
    """
    loop = Loop(order, quiet)
    if not order.dry_run:
        loop.tasks = tasks_of(order)
        settings = {each.name: str(getattr(order, each.name)) for each in dataclasses.fields(order)}
        fixed = {name: settings[name] for name in sorted(settings.keys() - _MAY_CHANGE)}
        begin(order.out / "fit" / "loop", fixed, instead="give another --out")
    loop.run()
    return loop.failed


def tasks_of(order: AgentLoop) -> dict[str, Task]:
    """The task of each kind of questions. None is drawn for two kinds, also where several name one benchmark.

    Those to train on are drawn first and then those to test on, so that they are the ones of other commands too.
    """
    tasks = {"train": load_training_task(order.task, order.data)}
    drawn = questions_of(order, tasks["train"])
    for split, name, limit in (
        ("test", order.test_task, order.test_limit), ("validation", order.validation, order.validation_limit),
    ):  # fmt: skip
        if name is not None:
            tasks[split] = without(load_task(name, order.data), drawn)
            drawn += questions_of(replace(order, limit=limit), tasks[split])
    return tasks


@dataclass
class Loop:
    """The stages. passes: the pass that was chosen of each fitted agent."""

    order: AgentLoop
    quiet: bool
    tasks: dict[str, Task] = field(default_factory=dict)
    measured: list[Measured] = field(default_factory=list)
    failed: int = 0
    passes: dict[Agent, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        order = self.order
        self.bases = [name.strip() for name in order.bases.split(",")]
        named = (("validation", order.validation), ("test", order.test_task))
        self.splits: list[Split] = [split for split, name in named if name is not None]  # type: ignore[misc]
        if not all(self.bases):
            raise ConfigurationError('name at least one base to fit, as in bases = "smollm2" in reground.toml')
        if len(set(map(size_of, self.bases))) < len(self.bases):
            raise ConfigurationError(f"two bases have the same name: {', '.join(self.bases)}")
        if not self.splits:
            raise ConfigurationError("nothing would be measured: give --validation, or test_task in reground.toml")

    def run(self) -> None:
        """All stages, in order."""
        order, teacher = self.order, Agent(self.order.model)
        for measure in self._measures(0, "prompted", "teacher", teacher):
            self.measure(measure)
        for base in () if order.no_untrained else self.bases:
            for shots, data in ((0, "untrained"), (1, "untrained, one example")):
                for measure in self._measures(0, data, size_of(base), Agent(f"hf/{base}", shots)):
                    self.measure(measure)
        grower = teacher
        for generation in range(1, order.generations + 1):
            grower = self._generation(generation, grower)

    def _generation(self, number: int, grower: Agent) -> Agent:
        """Grow, fit and measure once. Returns the agent that grows the next generation."""
        order, folder = self.order, self._folder(number)
        self.grow(folder, grower, order.repeats if number > 1 else 1)
        if order.by == "ranking":
            self.rank(folder)
        self.mix(folder, MIXTURE, order.by)
        learners = [(base, MIXTURE, size_of(base)) for base in self.bases]
        if not order.no_control:
            self.mix(folder, UNRANKED, "chance", like=MIXTURE)
            learners.append((self.bases[-1], UNRANKED, f"{size_of(self.bases[-1])}-{UNRANKED}"))
        for base, rows, name in learners:
            self.fit(folder, rows, base, name)
            data = f"generation {number}" + (f", {UNRANKED}" if rows == UNRANKED else "")
            for measure in self._measures(number, data, size_of(base), Agent(f"hf/{folder / name}", 0)):
                if measure.split == "validation":
                    self.choose(folder / name, measure)
                else:
                    self.measure(measure)
        return Agent(f"hf/{folder / size_of(self.bases[0])}", 0)

    def grow(self, folder: Path, agent: Agent, repeats: int) -> None:
        """Collect trajectories, `repeats` a question."""
        if not self._begins(f"{folder.name}: grow with {agent.model}, {repeats} a question"):
            return
        run = folder / GROWN
        before = _ended(run)
        begun = (folder / RANKING).exists() or (folder / "data").exists()
        if before is not None and (begun or not before.failed):
            summary = before
        else:
            order = self.using(agent, run, repeats)
            summary = grown_by(order, self.tasks["train"], folder, quiet=self.quiet)
            if before is None or summary.failed < before.failed:  # else trying them again changes nothing
                end_if_failed(summary.failed)
        self.failed += summary.failed
        self._say(usable(run).describe() + (f"; {summary.failed} questions failed" if summary.failed else ""))

    def rank(self, folder: Path) -> None:
        """Rank the samples of each step."""
        if self._begins(f"{folder.name}: rank the samples of each step") and not (folder / RANKING).exists():
            ranked, unread = asyncio.run(ranked_by(self.ranking(folder), quiet=self.quiet))
            self._say(f"{ranked} steps; {unread} rankings could not be read")

    def mix(self, folder: Path, name: str, by: By, like: str | None = None) -> None:
        """Make data/`name`.jsonl. like: the mixture whose number of rows it may not exceed."""
        if self._begins(f"{folder.name}: make the data {name}, by {by}"):
            most = None if like is None else len(read_mixture(folder, like))
            made = mixed_by(AgentMix(out=folder, by=by, most=most, seed=self.order.seed))
            write_mixture(folder, name, made)
            self._say(made.describe())

    def fit(self, folder: Path, mixture: str, base: str, name: str) -> None:
        """Fine-tune a base on a mixture; the result is folder/name."""
        if self._begins(f"{folder.name}: fit {base} on {mixture} as {name}") and not (folder / name).is_dir():
            fit_rows(
                self.order, read_mixture(folder, mixture), out=folder, name=name, base=base, quiet=self.quiet,
                keep_epochs="validation" in self.splits, cut=False,
            )  # fmt: skip

    def choose(self, place: Path, measure: Measure) -> None:
        """Measure a fit's model after each pass over the data, and keep the best of them in its place."""
        if not self._begins(f"{place.parent.name}: choose the pass of {place.name} on the validation questions"):
            return
        if (epoch := kept(place)) is None:
            scores = [
                _score(self.results_of(measure.at_epoch(each), f"{measure.run}-epoch{number}"))
                for number, each in enumerate(epochs_of(place), start=1)
            ]
            epoch = keep(scores, place)
        self.passes[measure.agent] = epoch
        best = self.results_of(measure, f"{measure.run}-epoch{epoch}", chosen=True)
        self._report(replace(best, epoch=epoch), f"pass {epoch}; ")

    def measure(self, measure: Measure) -> None:
        """Measure an agent."""
        if self._begins(f"measure {measure.size} ({measure.data}) on the {measure.split} questions"):
            self._report(replace(self.results_of(measure, measure.run), epoch=self.passes.get(measure.agent)))

    def results_of(self, measure: Measure, name: str, *, chosen: bool = False) -> Measured:
        """The results of a run, made if need be.

        chosen: what was measured decided which model is kept, so failed questions are not tried again.
        """
        run = self.order.out / "runs" / re.sub(r"[^\w.-]+", "-", name)
        summary = _ended(run)
        if summary is None or (summary.failed and not chosen):
            order = self.measuring(measure, run)
            summary = answered_by(order, self.tasks[measure.split], run, quiet=self.quiet)
        if not measure.generation:
            return Measured(measure, summary, usable(run).share)
        folder = self._folder(measure.generation)
        grown = _ended(folder / GROWN)
        trajectories = 0 if grown is None else grown.runs - grown.failed
        mixture = UNRANKED if measure.data.endswith(UNRANKED) else MIXTURE
        return Measured(measure, summary, usable(run).share, trajectories, len(read_mixture(folder, mixture)))

    def using(self, agent: Agent, out: Path, repeats: int) -> AgentLoop:
        """The options with another agent."""
        own = {} if agent.shots is None else {"shots": agent.shots}
        options = self._options(prompted=agent == Agent(self.order.model))
        judge = None if out.name == GROWN else self.order.judge
        settings = {**self.order.settings, **own}
        return replace(
            self.order, model=agent.model, model_options=options, out=out, repeats=repeats, judge=judge,
            settings=settings,
        )  # fmt: skip

    def measuring(self, measure: Measure, run: Path) -> AgentLoop:
        """The options of a measurement. Workers elsewhere open the task by its name, so it is that of the split."""
        order = self.using(measure.agent, run, self.order.measure_repeats)
        test = (order.test_task, order.test_limit)
        name, limit = (order.validation, order.validation_limit) if measure.split == "validation" else test
        assert name is not None
        return replace(order, task=name, limit=limit)

    def ranking(self, folder: Path) -> AgentRank:
        """The options of a ranking."""
        model = self.order.ranker or self.order.model
        return AgentRank(
            out=folder, model=model, style=self.order.style, concurrency=self.order.concurrency,
            model_options=self._options(prompted=model == self.order.model),
        )  # fmt: skip

    def _options(self, *, prompted: bool) -> ModelOptions:
        """The adapter and the price are those of the prompted model. prompted: whether they are for it."""
        given = self.order.model_options
        return given if prompted else replace(given, adapter=None, price=None)

    def _folder(self, generation: int) -> Path:
        return self.order.out / f"gen{generation}"

    def _measures(self, generation: int, data: str, size: str, agent: Agent) -> Iterator[Measure]:
        return (Measure(generation, data, size, agent, split) for split in self.splits)

    def _begins(self, text: str) -> bool:
        """Say what a stage does. Returns whether to do it."""
        say(text)
        return not self.order.dry_run

    def _say(self, text: str) -> None:
        say(f"  {text}")

    def _report(self, measured: Measured, prefix: str = "") -> None:
        """Add a measurement to the tables and the page."""
        self.measured.append(measured)
        self.failed += measured.summary.failed
        images = _plots(self.measured, self.order.out, self.splits)
        write_section(self.order.out, "loop", "\n\n".join([tables(self.measured), *images]))
        summary = measured.summary
        metric = summary.metrics[summary.primary]
        shown = "no score" if metric.mean is None else f"{summary.primary} {metric.mean:.3f}"
        self._say(f"{prefix}{shown}; {measured.usable:.0%} of the steps usable; {summary.failed} failed")


def _ended(run: Path) -> Summary | None:
    """A run's results, if every question was run; some may have failed."""
    if not (run / "summary.json").exists():
        return None
    summary = read_run(run).summary()
    return summary if summary is not None and summary.finished else None


def _score(measured: Measured) -> float:
    """What is compared; no score counts as the worst."""
    mean = measured.summary.metrics[measured.summary.primary].mean
    return float("-inf") if mean is None else mean


def _plots(measured: Sequence[Measured], out: Path, splits: Sequence[Split]) -> list[str]:
    """The lines of the page that show the plots; why there are none without matplotlib."""
    lines = []
    for split in splits:
        if any(each.stage.split == split for each in measured):
            try:
                plot_generations(measured, out / f"generations-{split}", split)
            except MissingExtra as error:
                return [f"(No plot: {error})"]
            lines.append(f"![score by generation on the {split} questions](generations-{split}.svg)")
    return lines
