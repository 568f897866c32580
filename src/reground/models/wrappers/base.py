"""What every wrapper does alike: stand in for the model inside."""

from __future__ import annotations

from reground.core.language import LanguageModel


async def close(model: object) -> None:
    """Close a model, if it holds connections or memory."""
    aclose = getattr(model, "aclose", None)
    if aclose is not None:
        await aclose()


class Wrapper:
    """Has the name, price and server of the model inside, and closes it."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.name = model.name
        self.price = getattr(model, "price", None)
        self.served_at = getattr(model, "served_at", None)

    async def aclose(self) -> None:
        """Close the model inside."""
        await close(self.model)
