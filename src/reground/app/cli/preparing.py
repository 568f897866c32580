"""Opens what a command needs before its work begins, with progress: models, critics, documents, a sandbox."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from reground.app.evaluating import Bench
    from reground.app.options import Ask, Benchmark
    from reground.app.options_serving import Offering
    from reground.app.serving.engine import Engine
    from reground.core.language import LanguageModel
    from reground.evaluation.task import Task
    from reground.models.options import ModelOptions


def bring_models(models: Iterable[object], on_pull: Callable[[str, int, int | None], None]) -> None:
    """Download those of the models named that are not here, once all names are known to be right."""
    from reground.app import catalogue

    named = [each for each in models if isinstance(each, str)]
    for each in named:
        catalogue.provider_module(each)
    for each in named:
        bring_model(each, on_pull)


def bring_model(model: str, on_pull: Callable[[str, int, int | None], None]) -> None:
    """Download a gguf model on first use, with progress, before any question is asked."""
    from reground.core.paths import expanded

    provider, _, name = model.partition("/")
    if provider != "gguf" or expanded(name).exists():
        return
    import importlib.util

    from reground.core.errors import MissingExtra
    from reground.models.pull import pull

    if importlib.util.find_spec("xllamacpp") is None:
        raise MissingExtra(model, "local")
    pull(name, progress=on_pull)


@asynccontextmanager
async def opened_model(name: str, options: ModelOptions, err: Console, *, quiet: bool) -> AsyncIterator[LanguageModel]:
    """A model by its name, downloaded with progress if need be, and closed at the end of the block."""
    from reground.app import catalogue
    from reground.app.asking import close
    from reground.app.cli.progress import AskProgress
    from reground.core.concurrency import in_daemon

    with AskProgress(err, shown=not quiet) as preparing:
        await in_daemon(partial(bring_model, name, preparing.on_pull), name="download")
    model = catalogue.load_model(name, options)
    try:
        yield model
    finally:
        await close(model)


@asynccontextmanager
async def opened_engine(
    order: Offering, err: Console, *, shown: bool, template: Ask | None = None
) -> AsyncIterator[Engine]:
    """The engine of what the options offer, its models downloaded if need be, closed at the end of the block.

    shown: whether progress is. template: what all questions have in common beside the options, such as a rewriter.
    """
    from reground.app import catalogue
    from reground.app.asking import critic_models
    from reground.app.cli.progress import AskProgress
    from reground.app.evaluating import settings_by_method
    from reground.app.serving.engine import names, open_engine
    from reground.core.concurrency import in_daemon

    names(order)  # wrong names are refused before a model is downloaded
    rewriter = None if template is None else template.rewriter
    settings = settings_by_method(order.settings, [catalogue.named(each) for each in order.method])
    async with AsyncExitStack() as opened:
        with AskProgress(err, shown=shown) as progress:
            specs = (*order.model, rewriter, *chain.from_iterable(map(critic_models, settings.values())))
            await in_daemon(partial(bring_models, specs, progress.on_pull), name="download")
            opening = open_engine(order, template=template, on_index=progress.on_index, on_report=progress.on_report)
            engine = await opened.enter_async_context(opening)
        _spare_the_collector()
        yield engine


async def open_benches(
    order: Benchmark,
    tasks: Sequence[Task],
    methods: Sequence[str],
    out: Path,
    err: Console,
    opened: AsyncExitStack,
    *,
    quiet: bool,
) -> list[Bench]:
    """Open a bench for each task, all with the same models. Everything that it opens is closed with `opened`."""
    from reground.app import catalogue
    from reground.app.asking import close, critic_models, open_critics
    from reground.app.cli.progress import AskProgress
    from reground.app.evaluating import judged, open_bench, settings_by_method
    from reground.core.concurrency import in_daemon

    options = order.model_options
    settings = settings_by_method(order.settings, methods)
    named = {role: getattr(order, role, None) for role in ("model", "judge", "rewriter")}
    models: dict[str, LanguageModel] = {}
    with AskProgress(err, shown=not quiet) as preparing:
        specs = (*named.values(), *chain.from_iterable(map(critic_models, settings.values())))
        await in_daemon(partial(bring_models, specs, preparing.on_pull), name="download")
        for role, name in named.items():
            if name is not None:
                load = catalogue.load_rewriter if role == "rewriter" else catalogue.load_model
                models[role] = load(name, options)
                opened.push_async_callback(close, models[role])
        critical = {method: open_critics(own, options, opened, models["model"]) for method, own in settings.items()}
        benches = []
        for task in tasks:
            bench = await open_bench(
                opened.enter_context(judged(task, models.get("judge"), out)),
                order,
                methods,
                models,
                critical,
                on_index=preparing.on_index,
                on_report=preparing.on_report,
            )
            opened.push_async_callback(close, bench.retriever)
            benches.append(bench)
    _spare_the_collector()
    return benches


def _spare_the_collector() -> None:
    """Make the garbage collector run less often.

    Thousands of calls make many objects but few cycles. With the default thresholds, collection took a fifth of the
    client's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
