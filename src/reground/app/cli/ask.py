"""`reground ask` and `reground demo`: a question in, a grounded answer out, with what it rests on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reground.app.cli import EXIT_UNGROUNDED
from reground.app.cli import _common as common

if TYPE_CHECKING:
    from reground.app.asking import Result
    from reground.core.budget import Budget
    from reground.models.options import ModelOptions

_ASK_HELP = """Answer a question, step by step, going back over every step with evidence from your documents.

Interrupted? The same command goes on where it was and pays for no call twice. Finished? It is replayed; --fresh asks anew.

Exit codes: 0 answered from your documents (or by a method that reads none), 4 answered with no document behind it,
1 no answer, 2 the command or the surroundings are wrong, 130 interrupted.

Example:  reground ask "Which came first, the Eiffel Tower or the Brooklyn Bridge?" --corpus docs/ --method rar
"""


def ask(
    question: Annotated[str, typer.Argument(help="The question.", show_default=False)],
    method: Annotated[str | None, typer.Option("--method", "-m", help="See `reground methods`. [default: rar]")] = None,
    model: Annotated[str | None, typer.Option("--model", help="provider/model. [default: gguf/smollm2]")] = None,
    corpus: Annotated[Path | None, typer.Option("--corpus", "-c", help="Documents, a JSONL file or an index.")] = None,
    language: common.Language = None,
    form: Annotated[
        str | None, typer.Option("--form", help="text, phrase, choice, number, program, pal, plan.")
    ] = None,
    setting: common.SetOption = None,
    config: common.ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")] = False,
    trace: Annotated[Path | None, typer.Option("--trace", help="Add the trajectory to this JSONL file.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of samples, where a method draws any.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ask anew, whatever was recorded before.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    budget_tokens: common.BudgetTokens = None,
    budget_calls: common.BudgetCalls = None,
    budget_seconds: common.BudgetSeconds = None,
    budget_usd: common.BudgetUsd = None,
    base_url: common.BaseUrl = None,
    api_key_env: common.ApiKeyEnv = None,
    price: common.PriceOption = None,
    context: common.Context = None,
    slots: common.Slots = None,
    adapter: common.Adapter = None,
    cache: common.Cache = None,
    rewriter: common.Rewriter = None,
) -> None:
    """Answer a question; the help text is `_ASK_HELP`."""
    file = common.read_config(config)
    options = common.model_options(
        file,
        base_url=base_url,
        api_key_env=api_key_env,
        price=price,
        context=context,
        slots=slots,
        adapter=adapter,
        cache=cache,
    )
    budget = common.budget_from(file, tokens=budget_tokens, calls=budget_calls, seconds=budget_seconds, usd=budget_usd)
    _answer(
        question,
        method=method or "rar",
        model=model or "gguf/smollm2",
        corpus=corpus,
        form=form,
        settings=common.parse_settings(file, setting),
        options=options,
        budget=budget,
        as_json=as_json,
        quiet=quiet,
        extra={
            "trace": trace,
            "seed": seed,
            "fresh": fresh,
            "rewriter": rewriter,
            "language": language or file.get("language"),
        },
    )


def demo(
    question: Annotated[str | None, typer.Argument(help="A question of your own about the demo's articles.")] = None,
    method: Annotated[str, typer.Option("--method", "-m", help="See `reground methods`.")] = "rar",
    model: Annotated[str, typer.Option("--model", help="provider/model.")] = "gguf/smollm2",
    fresh: Annotated[bool, typer.Option("--fresh", help="Ask anew, whatever was recorded before.")] = False,
) -> None:
    """Index the articles that come with reground, ask a question that needs several of them, and show every step.

    Example:  reground demo --method rat
    """
    from rich.markup import escape

    from reground.app.asking import DEFAULT_METHOD, DEFAULT_MODEL
    from reground.demo import corpus_path, default_question
    from reground.models.options import ModelOptions

    asked = question or default_question()
    _, err = common.consoles()
    err.print(
        f"[bold]Question[/]  {escape(asked)}\n[dim]method {method}, model {model}, corpus: the {corpus_path().name} that comes with reground[/]\n"
    )
    _answer(
        asked,
        method=method,
        model=model,
        corpus=corpus_path(),
        form=None,
        settings={"max_rounds": 1} if method == DEFAULT_METHOD else {},  # a demonstration is short
        options=ModelOptions(),
        budget=None,
        as_json=False,
        quiet=False,
        extra={"fresh": fresh},
    )
    if model == DEFAULT_MODEL:
        err.print(
            "[dim]SmolLM2 has 135 million parameters: it shows the machinery and is seldom right. "
            "Try --model gguf/qwen2.5-coder-1.5b or a server of yours.[/]"
        )


def _answer(
    question: str,
    *,
    method: str,
    model: str,
    corpus: Path | str | None,
    form: str | None,
    settings: dict[str, object],
    options: ModelOptions,
    budget: Budget | None,
    as_json: bool,
    quiet: bool,
    extra: dict[str, Any],
) -> None:
    from reground.app import catalogue
    from reground.app.asking import ask_question, critic_model
    from reground.app.cli.progress import AskProgress
    from reground.core.errors import ConfigurationError

    catalogue.method_class(method)  # before a model is brought
    if corpus is None and "retriever" in catalogue.needs(method):
        raise ConfigurationError(f"the method {method} needs documents: give --corpus DIR")
    out, err = common.consoles()
    with AskProgress(err, shown=not quiet and not as_json) as progress:
        for spec in filter(None, (model, extra.get("rewriter"), critic_model(settings))):
            _bring_model(spec, progress.on_pull)
        work = ask_question(
            question,
            method=method,
            model=model,
            corpus=corpus,
            form=form,
            settings=settings,
            model_options=options,
            budget=budget,
            observer=progress.on_event,
            on_index=progress.on_index,
            on_report=progress.on_report,
            **extra,
        )
        result = asyncio.run(work)
    if as_json:
        from reground.app.cli.terminal import json_text, say

        say(json_text(result.to_dict(), indent=2))
    else:
        from reground.app.cli.display import show_result

        show_result(out, result)
    _leave_quietly(result)
    if result.ungrounded is not None:
        raise typer.Exit(EXIT_UNGROUNDED)


def _bring_model(model: str, on_pull: Callable[[str, int, int | None], None]) -> None:
    """First use of an alias pulls it, with progress, before anything is asked."""
    provider, _, name = model.partition("/")
    if provider != "gguf" or Path(name).expanduser().exists():
        return
    import importlib.util

    from reground.core.errors import MissingExtra
    from reground.models.pull import pull

    if importlib.util.find_spec("xllamacpp") is None:
        raise MissingExtra(model, "local")
    pull(name, progress=on_pull)


def _leave_quietly(result: Result) -> None:
    """Say on exit that a budget ended the work or that nothing was read, for scripts that read standard error."""
    if os.environ.get("REGROUND_QUIET"):
        return
    from reground.app.cli.terminal import say

    if result.ungrounded is not None:
        say(f"note: {result.ungrounded}: this answer rests on no document", error=True)
    if result.stopped is not None:
        say(f"note: the {result.stopped} budget ended the work early; this is the best answer so far", error=True)


def register(cli: typer.Typer) -> None:
    """Add the commands of this file."""
    cli.command(help=_ASK_HELP)(ask)
    cli.command()(demo)
