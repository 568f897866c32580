"""`scripted`: a language model with given replies, for tests, demonstrations and dry runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from reground.core.errors import ModelError
from reground.core.language import Message, Reply, Sampling, Usage

Script = Callable[[Sequence[Message], Sampling], Reply | str | Exception]


class ScriptedModel:
    """Replies from a list, in order, or from a function of the messages; keeps every call it got.

    An exception in the script is raised instead of a reply. With n > 1 the script is called n times.
    Usage counts white-space separated words as tokens, so tests can compute budgets by hand.
    """

    def __init__(self, script: Iterable[Reply | str | Exception] | Script, *, name: str = "scripted") -> None:
        self.name = name
        self.calls: list[tuple[tuple[Message, ...], Sampling]] = []
        self._function = script if callable(script) else None
        self._replies = [] if callable(script) else list(script)
        self._position = 0

    @property
    def prompts(self) -> list[str]:
        """The last message of every call."""
        return [messages[-1].content for messages, _ in self.calls]

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        """Return the script's next replies."""
        self.calls.append((tuple(messages), sampling))
        replies = [self._one(messages, sampling) for _ in range(sampling.n)]
        usage = Usage(
            calls=1,
            prompt=sum(len(m.content.split()) for m in messages),
            completion=sum(len(reply.text.split()) for reply in replies),
        )
        return [replies[0].model_copy(update={"usage": usage}), *replies[1:]]

    def _one(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        if self._function is not None:
            step = self._function(messages, sampling)
        elif self._position < len(self._replies):
            step = self._replies[self._position]
            self._position += 1
        else:
            raise ModelError(f"the script of {self.name} has ended after {len(self._replies)} replies")
        if isinstance(step, Exception):
            raise step
        return Reply(text=step) if isinstance(step, str) else step
