"""reground: hard questions in, grounded answers out.

    import reground
    result = reground.ask("Which river flows past ...?", corpus="docs/")
    print(result.text, result.citations, result.shown, result.usage)

`aask` is the same as a coroutine. Everything else is imported from where it lives: `reground.core`,
`reground.methods`, `reground.retrieval`, `reground.evaluation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
    from pathlib import Path

    from reground.app.asking import Result
    from reground.core.budget import Budget
    from reground.core.evidence import Passage, Retriever
    from reground.core.language import LanguageModel
    from reground.core.run import Observer
    from reground.models.options import ModelOptions
    from reground.retrieval.settings import IndexReport, Progress

__version__ = "0.1.0"
__all__ = ["Budget", "__version__", "aask", "ask"]


def ask(
    question: str,
    *,
    method: str = "rar",
    model: str | LanguageModel | Callable[[str], str | Awaitable[str]] = "gguf/smollm2",
    rewriter: str | LanguageModel | Callable[[str], str | Awaitable[str]] | None = None,
    corpus: str | Path | Retriever | Sequence[str | Path | Passage] | None = None,
    form: str | None = None,
    settings: Mapping[str, object] | None = None,
    model_options: ModelOptions | Mapping[str, Any] | None = None,
    budget: Budget | int | Mapping[str, Any] | None = None,
    trace: str | Path | None = None,
    home: Path | None = None,
    seed: int | None = None,
    fresh: bool = False,
    observer: Observer | None = None,
    language: str | None = None,
    on_index: Callable[[Progress], None] | None = None,
    on_report: Callable[[IndexReport], None] | None = None,
) -> Result:
    """Answer a question and show how. Works in a notebook too, where an event loop is running already.

    Repeating the call resumes an interrupted run and replays a finished one.

    method: a method's name, name+preset, or a file of your own that ends in .py.
    model: `provider/model`, a function from prompt to reply, plain or async, or a LanguageModel of your own.
    rewriter: a model that rewrites queries, for methods that take one; without it the model itself does.
    corpus: a folder of documents, a JSONL file, an index, a Retriever of your own, or a list of texts, passages and
    paths.
    form: what an answer looks like: text, phrase, choice, number, program, pal, plan; else what suits the method.
    settings: the method's own settings, e.g. {"k": 3}; `reground methods NAME` lists them.
        What stands here is left as it is when a token budget scales the method.
    model_options: where and how to reach the model.
    budget: the most that the question may cost; a number is tokens, to which the method is scaled as in an evaluation.
    trace: a JSONL file to add the trajectory to.
    home: where runs are kept, instead of the user's state folder.
    seed: the base seed. Each sampled call derives its own from it, so another machine draws the same samples where the
        model allows it. None leaves the samples to the model.
    fresh: ignore what an earlier run of the same question recorded.
    observer: called with every event while the method works.
    language: the language of the documents, as a code or an English name. The default is English.
    on_index: called with progress while the corpus is indexed.
    on_report: called with the result of the indexing, before the method begins.

    Raises `reground.core.errors.RegroundError` when there is no answer to give.
    """
    return _finish(aask(**locals()))


async def aask(
    question: str,
    *,
    method: str = "rar",
    model: str | LanguageModel | Callable[[str], str | Awaitable[str]] = "gguf/smollm2",
    rewriter: str | LanguageModel | Callable[[str], str | Awaitable[str]] | None = None,
    corpus: str | Path | Retriever | Sequence[str | Path | Passage] | None = None,
    form: str | None = None,
    settings: Mapping[str, object] | None = None,
    model_options: ModelOptions | Mapping[str, Any] | None = None,
    budget: Budget | int | Mapping[str, Any] | None = None,
    trace: str | Path | None = None,
    home: Path | None = None,
    seed: int | None = None,
    fresh: bool = False,
    observer: Observer | None = None,
    language: str | None = None,
    on_index: Callable[[Progress], None] | None = None,
    on_report: Callable[[IndexReport], None] | None = None,
) -> Result:
    """`ask` as a coroutine, with the same options."""
    given = dict(locals())
    from reground.app.asking import ask_question

    return await ask_question(**given)


def _finish(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end: here, or in a thread of its own where this one's event loop is running already."""
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    from concurrent.futures import ThreadPoolExecutor
    from contextvars import copy_context

    started: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = []

    async def cancellable() -> Result:
        started.append((asyncio.get_running_loop(), asyncio.current_task()))
        return await work

    with ThreadPoolExecutor(1, thread_name_prefix="reground") as pool:
        waiting = pool.submit(copy_context().run, asyncio.run, cancellable())
        try:
            return waiting.result()
        except KeyboardInterrupt:
            for loop, task in started:
                if task is not None and not loop.is_closed():
                    loop.call_soon_threadsafe(task.cancel)
            raise


def __getattr__(name: str) -> Any:
    """`Budget`, imported when it is first asked for: importing reground itself takes no third-party package."""
    if name == "Budget":
        from reground.core.budget import Budget

        return Budget
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
