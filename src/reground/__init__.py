"""reground: hard questions in, grounded answers out.

    import reground
    result = reground.ask("Which river flows past ...?", corpus="docs/")
    print(result.text, result.citations, result.shown, result.usage)

`aask` is the same as a coroutine. Everything else is imported from where it lives: `reground.core`,
`reground.methods`, `reground.retrieval`, `reground.evaluation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

if TYPE_CHECKING:
    from reground.app.asking import Options, Result

__version__ = "0.1.0"
__all__ = ["__version__", "aask", "ask"]


def ask(question: str, **options: Unpack[Options]) -> Result:
    """Answer a question and show how. See `reground.app.asking.Options` for every option.

    Raises `reground.core.errors.RegroundError` when there is no answer to give.
    """
    import asyncio

    return asyncio.run(aask(question, **options))


async def aask(question: str, **options: Unpack[Options]) -> Result:
    """`ask` as a coroutine."""
    from reground.app.asking import ask_question

    return await ask_question(question, **options)
