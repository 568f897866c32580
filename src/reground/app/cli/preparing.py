"""Opens what a command needs, with progress: one model, a session, or the benches of an evaluation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from reground.app.benchmark import Bench
    from reground.app.options import Benchmark
    from reground.app.session import Session, Setup
    from reground.core.language import LanguageModel
    from reground.evaluation.task import Task
    from reground.models.options import ModelOptions


@asynccontextmanager
async def opened_model(name: str, options: ModelOptions, err: Console, *, quiet: bool) -> AsyncIterator[LanguageModel]:
    """A model by its name, downloaded with progress if need be, and closed at the end of the block."""
    from reground.app import catalogue
    from reground.app.cli.progress import AskProgress
    from reground.app.documents import close
    from reground.app.session import bring_models
    from reground.core.concurrency import in_daemon

    catalogue.provider_module(name)
    with AskProgress(err, shown=not quiet) as progress:
        await in_daemon(partial(bring_models, [name], progress.on_pull), name="download")
    model = catalogue.load_model(name, options)
    try:
        yield model
    finally:
        await close(model)


@asynccontextmanager
async def opened_session(setup: Setup, err: Console, *, shown: bool) -> AsyncIterator[Session]:
    """A session that stays open for many questions. shown: whether its opening is."""
    from reground.app.cli.progress import AskProgress
    from reground.app.session import Session, spare_the_collector

    async with AsyncExitStack() as opened:
        with AskProgress(err, shown=shown) as progress:
            session = await opened.enter_async_context(Session.open(setup, progress))
        spare_the_collector()
        yield session


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
    """A bench for each task, all in one session, which is closed with `opened`."""
    from reground.app.benchmark import open_benches
    from reground.app.cli.progress import AskProgress

    with AskProgress(err, shown=not quiet) as progress:
        return await opened.enter_async_context(open_benches(order, methods, tasks, out, progress))
