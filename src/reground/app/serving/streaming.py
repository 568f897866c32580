"""A question over HTTP: its body, its steps as they happen, and its result, whole or as a stream, in either form."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from reground.app import catalogue
from reground.app.runs import Result
from reground.app.serving.engine import Telling
from reground.app.serving.errors import Disconnect, Refusal
from reground.app.serving.middleware import INFO, RequestInfo
from reground.app.serving.requests import A, ChatRequest, ResponsesRequest, parsed
from reground.app.serving.responses import ChatReply, News, ResponsesReply, json_response, server_sent
from reground.app.serving.telemetry import traced
from reground.core.answers import MOST_INSTRUCTIONS
from reground.core.concurrency import in_daemon
from reground.core.errors import ConfigurationError
from reground.core.http import MIB
from reground.core.run import Listener

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from reground.app.options import Serve
    from reground.app.serving.engine import Engine
    from reground.app.serving.telemetry import Metrics
    from reground.core.run import Event, Observer

Reply = ChatReply | ResponsesReply

_BODY_SECONDS = 30.0  # how long a body may take to arrive
_DROPPED = 4  # how many times the largest body is read of one that is too large
_TOGETHER = 16  # how many times the largest body those that arrive may hold
_SMALL = 64 << 10  # bytes of a body that do not count for that
_SOON = 1.0  # how long a stream waits for its first step before it begins, so that an early failure still has a status
_CLOSE = {"Connection": "close"}
_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",  # proxies pass on every event at once
}


async def progress_of(ask: Callable[[Observer], Awaitable[Result]], heartbeat: float) -> AsyncGenerator[News, None]:
    """What happens while a question is answered, and its result. The first item comes soon, news or not.

    ask: answers, and tells the observer what happens. heartbeat: the seconds without news after which None comes.
    Raises what kept the method from an answer. The end of the iterator, wherever it is, ends the work.
    """
    news: asyncio.Queue[Any] = asyncio.Queue()  # of events, and of the task when it is done

    def tell(event: Event) -> None:
        if event.text or event.type in ("begin", "end"):
            news.put_nowait(event)

    task = asyncio.ensure_future(ask(tell))
    task.add_done_callback(news.put_nowait)
    seconds, telling = min(_SOON, heartbeat), Telling()
    try:
        while True:
            try:
                async with asyncio.timeout(seconds):
                    event = await news.get()
            except TimeoutError:
                event = None
            if event is task:
                yield task.result()
                return
            words = event if event is None or event.sources is not None else telling.more(event)
            if words != "":
                yield words
                seconds = heartbeat
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # it was told, or nobody is left to be told


@asynccontextmanager
async def while_connected(receive: Receive) -> AsyncIterator[None]:
    """Cancel what runs within when the client goes away. Raises Disconnect then.

    receive: of the request, whose body has been read.
    """
    task = asyncio.current_task()
    assert task is not None
    is_gone = False

    async def watch() -> None:
        nonlocal is_gone
        while (await receive())["type"] != "http.disconnect":
            pass
        is_gone = True
        task.cancel()

    watching = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if is_gone and task.uncancel() == 0:
            raise Disconnect from None
        raise
    finally:
        watching.cancel()


@dataclass(eq=False)
class Questions:
    """An endpoint. asked: the model of its bodies. reply: makes the form of a reply, for a body and a model's name."""

    engine: Engine
    metrics: Metrics
    order: Serve
    bodies: Bodies
    body: type[ChatRequest] | type[ResponsesRequest]
    reply: Callable[[Any, str], Reply]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. A client that goes away ends the work for it."""
        request, info = Request(scope, receive), scope[INFO]
        body: ChatRequest | ResponsesRequest = await self.bodies.read(self.body, request)
        offer, budget = self.engine.offer(body.model, info.holder), body.most
        turns, info.model = body.turns(self.order.max_question), offer.name
        param = "messages" if self.body is ChatRequest else "input"
        system = (turn.content for turn in turns if turn.role == "system") if self.order.system_messages else ()
        if len(instructions := "\n\n".join(system)) > MOST_INSTRUCTIONS:
            raise Refusal(400, f"system messages may have {MOST_INSTRUCTIONS:,} characters", "too_long", param=param)
        try:
            catalogue.check_price(offer.model, self.order.model_options, budget)
        except ConfigurationError:
            why = "budget.usd needs the model's price, which this server does not know"
            raise Refusal(400, why, "unknown_price", param="budget.usd") from None
        reply = self.reply(body, offer.name)
        with traced(offer, request.headers) as trace:

            async def ask(news: Observer) -> Result:
                def on_event(event: Event) -> None:
                    self.metrics.see(offer.name, event)
                    if trace is not None:
                        trace.see(event)
                    news(event)

                observer = Listener(on_event) if body.stream and body.json_form is None else on_event
                result = await self.engine.ask(
                    offer.name,
                    turns,
                    observer=observer,
                    budget=budget,
                    seed=body.seed,
                    holder=info.holder,
                    into_json=None if body.json_form is None else body.json_form.convert,
                    instructions=instructions,
                    where=body.where,
                )
                if trace is not None:
                    trace.result(result)
                return result

            async with while_connected(receive), aclosing(progress_of(ask, self.order.heartbeat)) as progress:
                if body.stream:
                    await _stream(reply, progress, send, info)
                else:
                    response = json_response(await _whole(reply, progress))
        # Past this point a client that goes away has its answer.
        if body.stream:
            await send({"type": "http.response.body", "body": reply.last, "more_body": False})
        else:
            await response(scope, receive, send)


async def _whole(reply: Reply, progress: AsyncIterator[News]) -> dict[str, Any]:
    reasoning = ""
    async for news in progress:
        if isinstance(news, Result):
            return reply.whole(news, reasoning)
        reasoning += news if isinstance(news, str) else ""
    raise AssertionError("a question ends with a result or an error")


async def _stream(reply: Reply, progress: AsyncIterator[News], send: Send, info: RequestInfo) -> None:
    """Send the stream but for its last word. Raises what kept the question from beginning."""
    first = await anext(progress)

    async def every() -> AsyncIterator[News]:
        if first is not None:
            yield first
        async for news in progress:
            yield news

    async def piece(event: dict[str, Any] | None) -> None:
        await send({"type": "http.response.body", "body": server_sent(event), "more_body": True})

    headers = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    try:
        async for event in reply.stream(every()):
            await piece(event)
    except Exception as error:
        refusal = info.refusal(error)
        info.status = refusal.status
        for event in reply.failed(refusal.body):
            await piece(event)


@dataclass
class Bodies:
    """Reads the bodies of requests. most: the bytes of one."""

    most: int
    _arriving: int = 0  # bytes of large bodies that have not ended

    async def read(self, kind: type[A], request: Request) -> A:
        """What a request asks. Raises Refusal where its body is too large, slow, many or wrong; and Disconnect."""
        body = await self._bytes(request)
        if len(body) <= MIB:
            return parsed(kind, body)
        return await in_daemon(partial(parsed, kind, body), name="reground-body")

    async def _bytes(self, request: Request) -> bytes:
        length, most = request.headers.get("content-length", "0"), self.most
        too_large = Refusal(413, f"the body is larger than {most // MIB} MiB", "body_too_large", headers=_CLOSE)
        if not length.isdecimal() or int(length[:20]) > _DROPPED * most:
            raise too_large
        body = bytearray()
        size, large, more = 0, 0, True
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                # Somewhat more than the limit is read and dropped: a client that still sends would not see the refusal.
                while more and size <= _DROPPED * most:
                    message = await request.receive()
                    if message["type"] == "http.disconnect":
                        raise Disconnect
                    size += len(message.get("body", b""))
                    more = message.get("more_body", False)
                    if size <= most:
                        body += message.get("body", b"")
                        before, large = large, max(0, len(body) - _SMALL)
                        self._arriving += large - before
                    if self._arriving > _TOGETHER * most:
                        why = "too many large bodies arrive at once; try again later"
                        again = _CLOSE | {"Retry-After": "5"}
                        raise Refusal(503, why, "busy", type="rate_limit_error", headers=again)
        except TimeoutError:
            why = f"the body did not arrive within {_BODY_SECONDS:.0f} seconds"
            raise Refusal(408, why, "timeout", headers=_CLOSE) from None
        finally:
            self._arriving -= large
        if size > most:
            raise too_large
        return bytes(body)
