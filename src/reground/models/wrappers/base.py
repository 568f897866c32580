"""The base of all wrappers."""

from __future__ import annotations

from reground.core.language import LanguageModel


async def close(model: object) -> None:
    """Close a model, if it holds connections or memory."""
    aclose = getattr(model, "aclose", None)
    if aclose is not None:
        await aclose()


class Wrapper:
    """Takes the name, price, server and samples of the inner model, and closes it."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.name = model.name
        self.price = getattr(model, "price", None)
        self.served_at = getattr(model, "served_at", None)

    @property
    def samples(self) -> int | None:
        """Replies that one request of the inner model gives; None if it gives all."""
        return getattr(self.model, "samples", None)

    async def aclose(self) -> None:
        """Close the inner model."""
        await close(self.model)
