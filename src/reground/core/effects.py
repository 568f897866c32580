"""How the results of effects are written and read, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, TypeAdapter

from reground.core.evidence import Passage, Skipped
from reground.core.language import LanguageModel, Message, Reply, Usage, estimate_tokens
from reground.core.programs import Execution
from reground.core.untrusted import neutralise

REPLIES = TypeAdapter(Annotated[tuple[Reply, ...], Field(min_length=1)])
FOUND = TypeAdapter(tuple[Passage | Skipped, ...])
EXECUTION = TypeAdapter(Execution)
SCORES = TypeAdapter(tuple[float, ...])


def harmless(message: Message) -> Message:
    """The message with its control tokens broken."""
    content = neutralise(message.content)
    return message if content == message.content else Message(role=message.role, content=content)


def usage_of(replies: Sequence[Reply]) -> Usage:
    """The total usage of a call's replies."""
    return sum((reply.usage for reply in replies[1:]), replies[0].usage) if replies else Usage()


def priced(usage: Usage, model: LanguageModel) -> Usage:
    """A call's usage. If its price was unknown when it was made, the model's present price applies."""
    price = getattr(model, "price", None)
    if usage.usd is not None or price is None:
        return usage
    return usage.model_copy(update={"usd": price.usd(usage.prompt, usage.cached, usage.completion)})


def usage_of_ended(messages: tuple[Message, ...], model: LanguageModel) -> Usage:
    """The cost of a call that the time budget cancelled: its estimated prompt, which the server may charge."""
    usage = priced(Usage(calls=1, prompt=estimate_tokens(messages), usd=None), model)
    return usage if usage.usd is not None else usage.model_copy(update={"usd": 0.0})
