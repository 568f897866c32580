"""Figures for Prometheus, and spans for OpenTelemetry in the names of its conventions; neither has text of a message.

Labels hold names of offers, paths and statuses alone, so that their number is bounded. Spans go where the program's own
provider sends them; where the API is not installed, or no provider is set, there are none.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from reground.core.trajectory import GenerateStep, RetrieveStep

if TYPE_CHECKING:
    from reground.app.result import Result
    from reground.app.serving.engine import Engine
    from reground.app.session import Offer
    from reground.core.run import Event


_SECONDS = (0.01, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Metrics:
    """The figures of one server."""

    def __init__(self, engine: Engine) -> None:
        self._registry = CollectorRegistry()
        of, registry = ["path", "model"], self._registry
        self._requests = Counter(
            "reground_requests", "Requests that were answered.", [*of, "status"], registry=registry
        )
        self._seconds = Histogram(
            "reground_request_seconds", "Seconds to the end of a reply.", of, buckets=_SECONDS, registry=registry
        )
        self._calls = Counter(
            "reground_model_calls", "Calls of models; replayed ones are none.", ["model"], registry=registry
        )
        self._tokens = Counter(
            "reground_tokens",
            "Tokens of those calls, by kind: prompt or completion.",
            ["model", "kind"],
            registry=registry,
        )
        working = Gauge("reground_questions_working", "Questions in work.", registry=registry)
        working.set_function(lambda: engine.working)
        waiting = Gauge("reground_questions_waiting", "Questions that wait for their turn.", registry=registry)
        waiting.set_function(lambda: engine.waiting)

    def answered(self, path: str, model: str, status: int, seconds: float) -> None:
        """Count a request. path: of a route; model: an offer's name, or nothing."""
        self._requests.labels(path, model, str(status)).inc()
        self._seconds.labels(path, model).observe(seconds)

    def see(self, model: str, event: Event) -> None:
        """Count what a step of a question cost."""
        step = event.step
        if not isinstance(step, GenerateStep) or step.replayed:
            return
        for reply in step.replies:
            self._calls.labels(model).inc(reply.usage.calls)
            self._tokens.labels(model, "prompt").inc(reply.usage.prompt)
            self._tokens.labels(model, "completion").inc(reply.usage.completion)

    def text(self) -> bytes:
        """All figures in Prometheus's text format."""
        return generate_latest(self._registry)


try:
    from opentelemetry import propagate, trace
except ImportError:  # no extra brings it
    trace = None  # type: ignore[assignment]


class Trace:
    """The span of one question, and within it a span for each call and search that is made now.

    headers: of the request, which may name a span of the client. provider: the program's own by default.
    """

    def __init__(self, offer: Offer, headers: Mapping[str, str], provider: Any = None) -> None:
        self._tracer = trace.get_tracer("reground", tracer_provider=provider)
        self._offer = offer
        self._open: defaultdict[tuple[str, str], deque[Any]] = defaultdict(deque)
        self._span = self._tracer.start_span(
            f"invoke_agent {offer.method}",
            context=propagate.extract(headers),
            kind=trace.SpanKind.SERVER,
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.provider.name": offer.model.partition("/")[0],
                "gen_ai.agent.name": offer.method,
                "gen_ai.request.model": offer.name,
                **({} if offer.corpus is None else {"gen_ai.data_source.id": offer.corpus}),
            },
        )
        self.recorded = self._span.is_recording()
        self._within = trace.set_span_in_context(self._span)

    def see(self, event: Event) -> None:
        """Begin or end a span. A replayed step begins nothing, so it has none."""
        waiting = self._open[event.span, event.name]
        if event.type == "begin":
            waiting.append(self._tracer.start_span(event.name, context=self._within))
        elif waiting and isinstance(event.step, GenerateStep | RetrieveStep):
            span = waiting.popleft()
            name, attributes = _described(event.step)
            span.update_name(name)
            span.set_attributes(attributes)
            span.end()

    def result(self, result: Result) -> None:
        """What the question cost."""
        self._span.set_attributes(_usage(result.usage) | {"gen_ai.response.id": result.trajectory.id})

    def end(self, error: BaseException | None) -> None:
        """End the spans. error: what kept the method from an answer; its message stays out."""
        for span in (span for waiting in self._open.values() for span in waiting):
            span.end()
        if error is not None:
            self._span.set_attribute("error.type", type(error).__name__)
            self._span.set_status(trace.Status(trace.StatusCode.ERROR))
        self._span.end()


@contextmanager
def traced(offer: Offer, headers: Mapping[str, str]) -> Iterator[Trace | None]:
    """The trace of a question, ended with the block; None where nothing records it."""
    made = None if trace is None else Trace(offer, headers)
    if made is None or not made.recorded:
        yield None
        return
    try:
        yield made
    except BaseException as error:
        made.end(error)
        raise
    made.end(None)


def _described(step: GenerateStep | RetrieveStep) -> tuple[str, dict[str, Any]]:
    if isinstance(step, RetrieveStep):
        return f"retrieval {step.retriever}", {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.data_source.id": step.retriever,
        }
    provider, _, model = step.model.partition("/")
    usage = [reply.usage for reply in step.replies]
    return f"chat {model or provider}", {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model or provider,
        "gen_ai.response.finish_reasons": [reply.finish_reason for reply in step.replies],
        **_usage(sum(usage[1:], usage[0])),
    }


def _usage(usage: Any) -> dict[str, int]:
    return {"gen_ai.usage.input_tokens": usage.prompt, "gen_ai.usage.output_tokens": usage.completion}
