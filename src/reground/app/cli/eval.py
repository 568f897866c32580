"""`reground eval`, `reground compare` and `reground report`: methods on benchmarks, at equal cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reground.app.cli import _common as common
from reground.app.cli.eval_run import CONFIRM_USD, Order, go, print_report

DEFAULT_METHODS = "direct,cot,rag,rar"
DEFAULT_LIMIT = 100
_COST = "Cost"

TaskOption = Annotated[str, typer.Option("--task", "-t", help="A benchmark's name, or scheme:DIR.", show_default=False)]
DataOption = Annotated[
    Path | None, typer.Option("--data", help="The benchmarks' folder, or hub; else REGROUND_DATA, else ./data.")
]
ModelOption = Annotated[str | None, typer.Option("--model", help="provider/model. [default: gguf/smollm2]")]
CorpusOption = Annotated[
    Path | None, typer.Option("--corpus", "-c", help="Documents or an index; else the task's own corpus.")
]
SandboxOption = Annotated[str, typer.Option("--sandbox", help="Where generated code runs: bubblewrap or docker.")]
JudgeOption = Annotated[
    str | None, typer.Option("--judge", help="A model (provider/model) that rates long answers; same server options.")
]
OutOption = Annotated[Path | None, typer.Option("--out", "-o", help="The run's folder. [default: below ./runs]")]
LimitOption = Annotated[int, typer.Option("--limit", min=0, help="Questions, drawn by the seed; 0 is all.")]
SampleOption = Annotated[
    int | None,
    typer.Option("--limit", min=0, help="Questions, drawn by the seed; 0 is all. [default: 100; all of --ids]"),
]
IdsOption = Annotated[
    str, typer.Option("--ids", help="Only these: ids, 11-175 (by number), 1:164 (by place), a subset's name; commas.")
]
TuneOption = Annotated[
    int,
    typer.Option(
        "--tune", min=0, help="Choose each method's size on so many training questions; 0 scales it to the budget."
    ),
]
TuneTaskOption = Annotated[
    str | None,
    typer.Option("--tune-task", help="The training split to tune on. [default: the task's own]", show_default=False),
]
RepeatsOption = Annotated[int, typer.Option("--repeats", min=1, help="Runs of each question.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Draws the questions and the samples.")]
ConcurrencyOption = Annotated[int, typer.Option("--concurrency", "-j", min=1, help="Questions in work at once.")]
RetryOption = Annotated[bool, typer.Option("--retry-failed", help="Run failed questions again.")]
RescoreOption = Annotated[bool, typer.Option("--rescore", help="Score finished questions again; calls no model.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say what it would cost and stop.", rich_help_panel=_COST)
]
SpeedOption = Annotated[
    float | None,
    typer.Option("--speed", min=0.001, help="Tokens a second, to estimate the time.", rich_help_panel=_COST),
]
YesOption = Annotated[
    bool,
    typer.Option("--yes", "-y", help=f"Do not ask before spending over {CONFIRM_USD:g} USD.", rich_help_panel=_COST),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]


def evaluate(
    task: TaskOption,
    method: Annotated[str | None, typer.Option("--method", "-m", help="See `reground methods`. [default: rar]")] = None,
    model: ModelOption = None,
    data: DataOption = None,
    corpus: CorpusOption = None,
    language: common.Language = None,
    sandbox: SandboxOption = "bubblewrap",
    judge: JudgeOption = None,
    rewriter: common.Rewriter = None,
    out: OutOption = None,
    ids: IdsOption = "",
    limit: SampleOption = None,
    repeats: RepeatsOption = 1,
    seed: SeedOption = 0,
    budget_tokens: common.BudgetTokens = None,
    budget_calls: common.BudgetCalls = None,
    budget_seconds: common.BudgetSeconds = None,
    budget_usd: common.BudgetUsd = None,
    setting: common.SetOption = None,
    config: common.ConfigFile = None,
    concurrency: ConcurrencyOption = 8,
    retry_failed: RetryOption = False,
    rescore: RescoreOption = False,
    dry_run: DryRunOption = False,
    speed: SpeedOption = None,
    yes: YesOption = False,
    quiet: QuietOption = False,
    base_url: common.BaseUrl = None,
    api_key_env: common.ApiKeyEnv = None,
    price: common.PriceOption = None,
    context: common.Context = None,
    slots: common.Slots = None,
    adapter: common.Adapter = None,
    cache: common.Cache = None,
) -> None:
    """Evaluate one method on a benchmark. The same command again goes on where it was; no call is paid twice.

    Exit code 3: finished, but some questions failed; --retry-failed runs them again.

    Example:  reground eval --task hotpotqa --method rar --limit 200 --repeats 3 --out runs/hotpotqa-rar
    """
    from reground.evaluation.compare import cells_of
    from reground.evaluation.runner import EvalSettings

    file = common.read_config(config)
    chosen, named = method or "rar", model or "gguf/smollm2"
    budget = common.budget_from(file, tokens=budget_tokens, calls=budget_calls, seconds=budget_seconds, usd=budget_usd)
    (cell,) = cells_of([chosen], [budget.tokens])
    flags = {"base_url": base_url, "api_key_env": api_key_env, "price": price, "context": context}
    base = EvalSettings(
        chosen, named, ids=ids, limit=sample(ids, limit), repeats=repeats, seed=seed, concurrency=concurrency,
        retry_failed=retry_failed, rescore=rescore,
    )  # fmt: skip
    go(
        Order(
            task=task,
            cells=[cell],
            baseline=chosen,
            data=data,
            model=named,
            corpus=corpus,
            language=language,
            sandbox=sandbox,
            judge=judge,
            rewriter=rewriter,
            out=out if out is not None else Path("runs") / slug(task, cell.label, named),
            single=True,
            settings=common.parse_settings(file, setting),
            options=common.model_options(file, **flags, slots=slots, adapter=adapter, cache=cache),
            budget=budget,
            base=base,
            dry_run=dry_run,
            speed=speed,
            yes=yes,
            quiet=quiet,
        )
    )


def compare(
    task: TaskOption,
    methods: Annotated[str, typer.Option("--methods", "-m", help="Names, with commas between.")] = DEFAULT_METHODS,
    budgets: Annotated[
        str, typer.Option("--budgets", "-b", help="Tokens a question, with commas: 1k,2k,4k; none is no budget.")
    ] = "1k,2k,4k",
    baseline: Annotated[
        str | None, typer.Option("--baseline", help="What others are tested against. [default: the first method]")
    ] = None,
    model: ModelOption = None,
    data: DataOption = None,
    corpus: CorpusOption = None,
    language: common.Language = None,
    sandbox: SandboxOption = "bubblewrap",
    judge: JudgeOption = None,
    rewriter: common.Rewriter = None,
    out: OutOption = None,
    ids: IdsOption = "",
    limit: SampleOption = None,
    tune: TuneOption = 0,
    tune_task: TuneTaskOption = None,
    repeats: RepeatsOption = 1,
    seed: SeedOption = 0,
    budget_calls: common.BudgetCalls = None,
    budget_seconds: common.BudgetSeconds = None,
    budget_usd: common.BudgetUsd = None,
    setting: common.SetOption = None,
    config: common.ConfigFile = None,
    concurrency: ConcurrencyOption = 8,
    retry_failed: RetryOption = False,
    rescore: RescoreOption = False,
    dry_run: DryRunOption = False,
    speed: SpeedOption = None,
    yes: YesOption = False,
    quiet: QuietOption = False,
    base_url: common.BaseUrl = None,
    api_key_env: common.ApiKeyEnv = None,
    price: common.PriceOption = None,
    context: common.Context = None,
    slots: common.Slots = None,
    adapter: common.Adapter = None,
    cache: common.Cache = None,
) -> None:
    """Compare methods at the same token budgets, each scaled to use them, and write report.md with plots.

    With --tune N every method runs in the size that did best on N questions of a training split, which may use less
    than the budget: its default, and scaled to an eighth, a quarter, half and all of it.

    A setting goes to every method that has it, or to one: --set rar.k=3. The same command again goes on where it
    was; more methods and budgets may be added to the same folder. Exit code 3: some questions failed.

    Example:  reground compare --task hotpotqa --methods direct,cot,rag,rar --budgets 1k,2k,4k --dry-run
    """
    from reground.core.errors import ConfigurationError
    from reground.evaluation.compare import cells_of, parse_budgets
    from reground.evaluation.runner import EvalSettings

    file = common.read_config(config)
    names = [name.strip() for name in methods.split(",") if name.strip()]
    if not names or (baseline is not None and baseline not in names):
        raise ConfigurationError("--methods names the methods, the baseline among them")
    named = model or "gguf/smollm2"
    flags = {"base_url": base_url, "api_key_env": api_key_env, "price": price, "context": context}
    base = EvalSettings(
        names[0], named, ids=ids, limit=sample(ids, limit), repeats=repeats, seed=seed, concurrency=concurrency,
        retry_failed=retry_failed, rescore=rescore,
    )  # fmt: skip
    go(
        Order(
            task=task,
            cells=cells_of(names, parse_budgets(budgets)),
            baseline=baseline or names[0],
            data=data,
            model=named,
            corpus=corpus,
            language=language,
            sandbox=sandbox,
            judge=judge,
            rewriter=rewriter,
            out=out if out is not None else Path("runs") / slug("compare", task, named),
            single=False,
            settings=common.parse_settings(file, setting),
            options=common.model_options(file, **flags, slots=slots, adapter=adapter, cache=cache),
            budget=common.budget_from(file, calls=budget_calls, seconds=budget_seconds, usd=budget_usd),
            base=base,
            dry_run=dry_run,
            speed=speed,
            yes=yes,
            quiet=quiet,
            tune=tune,
            tune_task=tune_task,
        )
    )


def report(
    folders: Annotated[list[Path], typer.Argument(help="Run folders, or folders that hold some.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where report.md and the plots go. [default: the first folder]")
    ] = None,
    baseline: Annotated[str | None, typer.Option("--baseline", help="What others are tested against.")] = None,
    by: Annotated[str | None, typer.Option("--by", help="Also by this field of the questions' metadata.")] = None,
) -> None:
    """Write the report on finished or unfinished runs again, also over several models; calls no model.

    Example:  reground report runs/small-model runs/large-model --out runs/both
    """
    console, _ = common.consoles()
    print_report(console, folders, out if out is not None else folders[0], baseline, by)


def sample(ids: str, limit: int | None) -> int | None:
    """How many questions: those asked for, else 100, else all that are named; None is all."""
    if limit is not None:
        return limit or None
    return None if ids else DEFAULT_LIMIT


def slug(*names: str) -> str:
    """A folder's name made of names."""
    return "-".join("".join(c if c.isalnum() or c in "@._" else "-" for c in name).strip("-") for name in names)


def register(cli: typer.Typer) -> None:
    """Add the commands of this file."""
    cli.command("eval")(evaluate)
    cli.command()(compare)
    cli.command()(report)
