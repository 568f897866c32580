"""A retriever of your own: anything with a name and a coroutine that ranks passages.

python examples/your_own_retriever.py
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import reground
from reground.core.evidence import Passage
from reground.core.language import LanguageModel
from reground.models.scripted import ScriptedModel

NOTES = {
    "tea": "Black tea is brewed with water just off the boil, for three to five minutes.",
    "coffee": "Filter coffee is brewed with water between 90 and 96 degrees Celsius.",
}


class NoteRetriever:
    """Finds the notes whose name occurs in the query."""

    name = "notes"

    async def retrieve(self, query: str, /, *, k: int) -> Sequence[Passage]:
        found = [Passage(id=name, title=name, text=text, score=1.0) for name, text in NOTES.items() if name in query]
        return found[:k]


async def main(model: LanguageModel | None = None) -> str:
    model = model if model is not None else ScriptedModel(["Three to five minutes [1]."])
    result = await reground.aask("How long does black tea brew?", method="rag", model=model, corpus=NoteRetriever())
    return f"{result.text} (from {result.citations[0].title})"


if __name__ == "__main__":
    print(asyncio.run(main()))
