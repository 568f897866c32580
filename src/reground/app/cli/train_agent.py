"""`reground train agent`: the Search Agent learns from its own trajectories, and becomes small."""

from __future__ import annotations

import asyncio
from functools import partial

import typer

from reground.app.cli import _common as common
from reground.app.cli.agent_stages import METHOD, fitted_by, grown_by, mixed_by, questions_of, ranked_by
from reground.app.cli.config import ConfigFile
from reground.app.cli.demonstrating import demonstrate as write_lessons
from reground.app.cli.flags import flattened
from reground.app.options import Quiet
from reground.app.options_agent import AgentDemonstrate, AgentFit, AgentGrow, AgentLoop, AgentMix, AgentRank

agent_app = typer.Typer(
    no_args_is_help=True,
    help="Train the Search Agent on its own trajectories: grow them, rank the samples of each step, mix what is "
    "taught, fit a model of the same size or smaller; all in one --out. `loop` runs them for several generations."
    "\n\nExample:  reground train agent grow --task hotpotqa_train --limit 160 --out runs/agent",
)


@agent_app.command()
@flattened
def grow(order: AgentGrow, voice: Quiet, config: ConfigFile = None) -> None:
    """Let the agent answer training questions, and keep every step with its samples.

    An ordinary run in OUT/grown; gold answers only score it. The examples in its prompts rotate. The same command
    resumes an interrupted run. Exit code 3: some questions failed; the same command tries them again.

    Example:  reground train agent grow --task hotpotqa_train --limit 160 --model openai/my-model
    """
    from reground.evaluation.tasks import load_training_task
    from reground.training.agent.rank import GROWN, usable

    console, err = common.consoles()
    task = load_training_task(order.task, order.data)
    if order.dry_run:
        common.say(console, f"grow: {len(questions_of(order, task)) * order.repeats} trajectories")
        return
    summary = asyncio.run(grown_by(order, task, order.out, err, quiet=voice.quiet))
    common.say(console, f"trajectories in {order.out / GROWN}: {usable(order.out / GROWN).describe()}")
    common.end_if_failed(err, summary.failed)


@agent_app.command()
@flattened
def demonstrate(order: AgentDemonstrate, voice: Quiet, config: ConfigFile = None) -> None:
    """Write demonstrations: what an ideal agent does on training questions with gold passages.

    It searches for the question and then for gold pages that something names, copies the sentences that count, and
    gives the gold answer. No model is needed. The rows are in OUT/data/demonstrated.jsonl, for `mix --add`.

    Example:  reground train agent demonstrate --tasks hotpotqa_train --limit 200 --out runs/agent
    """
    from reground.training.agent.rank import DEMONSTRATED
    from reground.training.oracles import agent_demonstrations

    make = partial(agent_demonstrations, settings=order)
    questions = f"{DEMONSTRATED}.json"  # questions.json names those that are grown
    write_lessons(order, make, method=METHOD, name=DEMONSTRATED, questions=questions, quiet=voice.quiet)


@agent_app.command()
@flattened
def rank(order: AgentRank, voice: Quiet, config: ConfigFile = None) -> None:
    """Have a model rank the samples of each step; the trajectories stay as they are.

    The same command resumes an interrupted ranking.

    Example:  reground train agent rank --model openai/my-larger-model
    """
    from reground.training.agent.rank import RANKING, rankable

    console, err = common.consoles()
    if order.dry_run:
        common.say(console, f"rank: {len(rankable(order.out))} steps")
        return
    ranked, unread = asyncio.run(ranked_by(order, err, quiet=voice.quiet))
    common.say(console, f"{ranked} steps in {order.out / RANKING}; {unread} rankings could not be read")


@agent_app.command()
@flattened
def mix(order: AgentMix, voice: Quiet, config: ConfigFile = None) -> None:
    """Make the training data of the grown steps: one conversation a step, without examples in its prompt.

    They are written to OUT/data/mixture.jsonl. --add FILE adds demonstrations from elsewhere.

    Example:  reground train agent mix --by ranking
    """
    from reground.training.agent.rank import MIXTURE, write_mixture

    console, _ = common.consoles()
    made = mixed_by(order)
    common.say(console, made.describe())
    if not order.dry_run:
        write_mixture(order.out, MIXTURE, made)


@agent_app.command()
@flattened
def fit(order: AgentFit, voice: Quiet, config: ConfigFile = None) -> None:
    """Fine-tune a model on the mixture.

    The result, OUT/NAME, is used as --model hf/OUT/NAME with --set shots=0. The same command resumes an interrupted
    fit.

    Example:  reground train agent fit --base smollm2
    """
    from reground.training.agent.rank import MIXTURE, read_mixture
    from reground.training.sft import long_rows

    console, err = common.consoles()
    if order.dry_run:
        rows = read_mixture(order.out, MIXTURE)
        common.say(console, f"fit: {len(rows)} steps, {order.epochs:g} passes over them")
        if told := long_rows(rows, order.base, order.max_length, cut=False):
            common.say(console, f"note: {told}")
        return
    place = fitted_by(order, MIXTURE, err, quiet=voice.quiet)
    common.say(console, f"the agent is in {place}: --model hf/{place} --set shots=0")


@agent_app.command()
@flattened
def loop(order: AgentLoop, voice: Quiet, config: ConfigFile = None) -> None:
    """Run all stages for several generations, measure every agent, and write the tables: OUT/report.md.

    The prompted model grows the first generation. Every base is fitted on each generation's steps, from its own
    weights again; the first base's model grows the next generation. A configuration file can hold the whole plan. The
    same command resumes. Exit code 3: some questions failed; the same command tries them again.

    Example:  reground train agent loop --task hotpotqa_train --bases qwen2.5-coder-0.5b,smollm2 --config loop.toml
    """
    from reground.app.cli.train_agent_loop import planned, run_loop
    from reground.training.agent.loop import described

    console, err = common.consoles()
    plan = planned(order)
    if order.dry_run:
        for stage in plan.stages():
            common.say(console, described(stage))
        return
    page, failed = run_loop(order, plan, console, err, quiet=voice.quiet)
    common.say(console, f"written: {page}")
    common.end_if_failed(err, failed, "the same command tries those again on which nothing was built yet")


def register(train: typer.Typer) -> None:
    """Add the commands of this file."""
    train.add_typer(agent_app, name="agent")
