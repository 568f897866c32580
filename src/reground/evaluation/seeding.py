"""Seeds for a model's samples, so that a run can be made again and its repeats differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from reground.core.language import LanguageModel, Message, Reply, Sampling

Seed: TypeAlias = Callable[[LanguageModel], LanguageModel]
"""What every model of a method goes through before it is used."""


def first_seed(seed: int, *, repeat: int = 0, recorded: int = 0) -> int:
    """The seed of a question's first sampled call.

    recorded: effects of an earlier session are replayed and draw no seeds, so begin behind those that it can have drawn.
    """
    return (seed * 1_009 + repeat) * 100_003 % 2**31 + recorded


class Seeded:
    """A model whose sampled calls get a seed where they have none; greedy calls need none and stay cacheable.

    Calls with the same messages get seeds one after the other: a method that samples a prompt five times in five
    calls must not get one sample five times. `first` is the seed of the first call with any messages.
    """

    def __init__(self, model: LanguageModel, first: int) -> None:
        self._model = model
        self._first = first
        self._drawn: dict[tuple[str, ...], int] = {}

    @property
    def name(self) -> str:
        """The model's own name: the seed is part of the run's configuration."""
        return self._model.name

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        """Call the model with a seed."""
        if sampling.seed is None and sampling.temperature > 0:
            key = tuple(text for message in messages for text in (message.role, message.content))
            count = self._drawn[key] = self._drawn.get(key, -1) + 1
            sampling = sampling.model_copy(update={"seed": self._first + count})
        return await self._model.generate(messages, sampling)
