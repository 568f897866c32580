"""The user's own function as a language model: prompt in, reply out."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence

from reground.core.errors import CapabilityError, ModelError
from reground.core.files import function_fingerprint
from reground.core.language import Message, Reply, Sampling, Usage, estimate_tokens
from reground.core.reasoning import ended_at
from reground.models.options import Price, priced


class FunctionModel:
    """Calls a plain function in a thread, or awaits an async one, once for each reply.

    The function gets the conversation as one string; turns of a longer one are headed by their role. Its name holds a
    fingerprint of its code and of what it holds, so that a changed function is another model. Tokens are estimated from
    the text's length, and the cost in USD is unknown without a price. Raises ModelError for a reply that is no string,
    CapabilityError for a sampling with a grammar.
    """

    samples = 1
    """One call of the function for each reply."""

    def __init__(self, function: Callable[[str], str | Awaitable[str]], *, price: Price | None = None) -> None:
        name = getattr(function, "__qualname__", type(function).__qualname__)
        self.name = f"function/{name}-{function_fingerprint(function)}"
        self.price = price
        self._function = function
        self._waits = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - the method itself is wanted, not whether there is one
        )

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        """Return `sampling.n` replies."""
        if sampling.grammar is not None:
            raise CapabilityError(f"{self.name} is a function, which keeps to no grammar", lacks="grammar")
        prompt = "\n\n".join(f"{message.role}: {message.content}" for message in messages)
        if len(messages) == 1:
            prompt = messages[0].content
        texts = await asyncio.gather(*(self._say(prompt) for _ in range(sampling.n)))
        replies = [ended_at(Reply(text=text), sampling.stop) for text in texts]
        prompt_tokens = sampling.n * estimate_tokens(tuple(messages))
        reply_tokens = sum(len(reply.text.encode()) // 4 for reply in replies)
        usage = Usage(calls=sampling.n, prompt=prompt_tokens, completion=reply_tokens, usd=None)
        replies[0] = replies[0].model_copy(update={"usage": usage})
        return priced(replies, self.price)

    async def _say(self, prompt: str) -> str:
        reply = self._function(prompt) if self._waits else await asyncio.to_thread(self._function, prompt)
        if inspect.isawaitable(reply):
            reply = await reply
        if not isinstance(reply, str):
            raise ModelError(f"{self.name} returned {type(reply).__name__} where a model's reply, a string, belongs")
        return reply
