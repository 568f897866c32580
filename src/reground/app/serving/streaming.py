"""A question over HTTP: its body, its steps as they happen, and its result, whole or as a stream, in either form."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from reground.app import catalogue
from reground.app.serving.engine import Engine, Work
from reground.app.serving.errors import Gone, Refusal, refusal_of
from reground.app.serving.middleware import SEEN, Seen, note_failure
from reground.app.serving.requests import ChatRequest, ResponsesRequest, parsed
from reground.app.serving.responses import ChatReply, EventStream, ResponsesReply, send_json, words_of
from reground.app.serving.telemetry import Trace, traced
from reground.core.errors import ConfigurationError
from reground.core.http import MIB

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from reground.app.options import Serve
    from reground.app.result import Result
    from reground.app.serving.telemetry import Metrics
    from reground.app.session import Offer
    from reground.core.budget import Budget
    from reground.core.run import Event, Observer

Reply = ChatReply | ResponsesReply

_BODY_SECONDS = 30.0
"""How long a body may take to arrive."""
_DROPPED = 4
"""How many times the largest body is read of one that is too large."""
_SOON = 1.0
"""How long a stream waits for its first step before it begins, so that an early failure still has a status."""
_CLOSE = {"Connection": "close"}


@asynccontextmanager
async def while_connected(receive: Receive) -> AsyncIterator[None]:
    """Cancel what runs within when the client goes away. Raises Gone then.

    receive: of the request, whose body has been read.
    """
    task = asyncio.current_task()
    assert task is not None
    gone = False

    async def watch() -> None:
        nonlocal gone
        while (await receive())["type"] != "http.disconnect":
            pass
        gone = True
        task.cancel()

    watching = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if gone and task.uncancel() == 0:
            raise Gone from None
        raise
    finally:
        watching.cancel()


class Questions:
    """An endpoint. asked: the model of its bodies. reply: makes the form of a reply, for a body and a model's name."""

    def __init__(
        self,
        engine: Engine,
        metrics: Metrics,
        order: Serve,
        asked: type[ChatRequest] | type[ResponsesRequest],
        reply: Callable[[Any, str], Reply],
    ) -> None:
        self._engine, self._metrics, self._order = engine, metrics, order
        self._asked, self._reply = asked, reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. A client that goes away ends the work for it."""
        seen: Seen = scope[SEEN]
        asked: ChatRequest | ResponsesRequest = parsed(
            self._asked, await read_body(scope, receive, self._order.max_body * MIB)
        )
        offer, turns = self._engine.offer(asked.model), asked.turns
        seen.model = offer.name
        self._check_price(offer, asked.most)
        reply = self._reply(asked, offer.name)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        with traced(offer, headers) as trace:

            async def ask(news: Observer) -> Result:
                observer = self._observer(offer, news, trace)
                result = await self._engine.ask(
                    offer.name, turns, observer=observer, budget=asked.most, seed=asked.seed
                )
                if trace is not None:
                    trace.result(result)
                return result

            async with while_connected(receive), Work(ask) as work:
                if asked.stream:
                    last = await self._stream(reply, work, send, seen)
                else:
                    said = [words_of(event) async for event in work.events(None) if event is not None]
                    whole = reply.whole(await work.result(), "".join(said))
        # Past this point a client that goes away has its answer.
        await (last() if asked.stream else send_json(send, whole))

    def _check_price(self, offer: Offer, budget: Budget | None) -> None:
        try:
            catalogue.check_price(offer.model, self._order.model_options, budget)
        except ConfigurationError:
            why = "budget.usd needs the model's price, which this server does not know"
            raise Refusal(400, why, code="unknown_price", param="budget.usd") from None

    def _observer(self, offer: Offer, news: Observer, trace: Trace | None) -> Observer:
        def observer(event: Event) -> None:
            self._metrics.see(offer.name, event)
            if trace is not None:
                trace.see(event)
            news(event)

        return observer

    async def _stream(self, reply: Reply, work: Work, send: Send, seen: Seen) -> Callable[[], Awaitable[None]]:
        """Send the stream but for its last word, which the returned function sends."""
        await work.begun(min(_SOON, self._order.heartbeat))
        stream = EventStream(send)
        await stream.begin()
        try:
            async for event in reply.stream(work, self._order.heartbeat):
                await stream.event(event)
        except Exception as error:
            refusal = refusal_of(error)
            note_failure(seen, error)
            seen.status = refusal.status
            for event in reply.failed(refusal.body):
                await stream.event(event)
        return partial(stream.end, reply.done)


async def read_body(scope: Scope, receive: Receive, most: int) -> bytes:
    """The body of a request. Raises Refusal where it is too large or too slow, and Gone."""
    length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    too_large = Refusal(413, f"the body is larger than {most // MIB} MiB", code="body_too_large", headers=_CLOSE)
    if not length.isdigit() or int(length[:20]) > _DROPPED * most:
        raise too_large
    parts: list[bytes] = []
    size, more = 0, True
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            # Somewhat more than the limit is read and dropped: a client that still sends would not see the refusal.
            while more and size <= _DROPPED * most:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Gone
                size += len(message.get("body", b""))
                more = message.get("more_body", False)
                if size <= most:
                    parts.append(message.get("body", b""))
    except TimeoutError:
        why = f"the body did not arrive within {_BODY_SECONDS:.0f} seconds"
        raise Refusal(408, why, code="timeout", headers=_CLOSE) from None
    if size > most:
        raise too_large
    return b"".join(parts)
