"""Figures for Prometheus, and spans for OpenTelemetry in the names of its conventions; neither has text of a message.

Labels hold names of offers, paths and statuses alone, so that their number is bounded. Spans go where the program's own
provider sends them; where the API is not installed, or no provider is set, there are none.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from reground.core.language import Usage
from reground.core.trajectory import GenerateStep, RetrieveStep

if TYPE_CHECKING:
    from reground.app.runs import Result
    from reground.app.serving.engine import Engine
    from reground.app.serving.keys import Holder
    from reground.app.session import Offer
    from reground.core.run import Event


_SECONDS = (0.01, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Metrics:
    """The figures of one server."""

    def __init__(self, engine: Engine) -> None:
        self._registry, self._engine = CollectorRegistry(), engine

        def metric(kind: Any, name: str, about: str, labels: str = "", **more: Any) -> Any:
            return kind(f"reground_{name}", about, labels.split(), registry=self._registry, **more)

        self._requests = metric(Counter, "requests", "Requests that were answered.", "path model status")
        self._seconds = metric(
            Histogram, "request_seconds", "Seconds to the end of a reply.", "path model", buckets=_SECONDS
        )
        self._calls = metric(Counter, "model_calls", "Calls of models; replayed ones are none.", "model")
        self._tokens = metric(Counter, "tokens", "Tokens of those calls, by kind: prompt or completion.", "model kind")
        metric(Gauge, "questions_working", "Questions in work.").set_function(lambda: engine.working)
        metric(Gauge, "questions_waiting", "Questions that wait for their turn.").set_function(lambda: engine.waiting)

    def answered(self, path: str, model: str, status: int, seconds: float) -> None:
        """Count a request. path: of a route; model: an offer's name, or nothing."""
        self._requests.labels(path, model, str(status)).inc()
        self._seconds.labels(path, model).observe(seconds)

    def see(self, model: str, event: Event) -> None:
        """Count what a step of a question cost."""
        if isinstance(event.step, GenerateStep) and not event.step.replayed:
            usage = sum((reply.usage for reply in event.step.replies), Usage())
            self._calls.labels(model).inc(usage.calls)
            self._tokens.labels(model, "prompt").inc(usage.prompt)
            self._tokens.labels(model, "completion").inc(usage.completion)

    def text(self, holder: Holder) -> bytes:
        """The figures in Prometheus's text format, without those of models that the client may not use."""
        models, families = {"", *self._engine.offers_to(holder)}, [*self._registry.collect()]
        for family in families:
            family.samples = [each for each in family.samples if each.labels.get("model", "") in models]
        return generate_latest(SimpleNamespace(collect=lambda: families))


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
        self._open: defaultdict[tuple[str, str], deque[Any]] = defaultdict(deque)
        self.span = self._tracer.start_span(
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
        self._within = trace.set_span_in_context(self.span)

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
        self.span.set_attributes(_usage(result.usage) | {"gen_ai.response.id": result.trajectory.id})

    def end(self, error: BaseException | None = None) -> None:
        """End the spans. error: what kept the method from an answer; its message stays out."""
        for span in (span for waiting in self._open.values() for span in waiting):
            span.end()
        if error is not None:
            self.span.set_attribute("error.type", type(error).__name__)
            self.span.set_status(trace.Status(trace.StatusCode.ERROR))
        self.span.end()


@contextmanager
def traced(offer: Offer, headers: Mapping[str, str]) -> Iterator[Trace | None]:
    """The trace of a question, ended with the block; None where nothing records it."""
    record = None if trace is None else Trace(offer, headers)
    if record is None or not record.span.is_recording():
        yield None
        return
    try:
        yield record
    except BaseException as error:
        record.end(error)
        raise
    record.end()


def _described(step: GenerateStep | RetrieveStep) -> tuple[str, dict[str, Any]]:
    if isinstance(step, RetrieveStep):
        name, attributes = f"retrieval {step.retriever}", {"gen_ai.data_source.id": step.retriever}
        return name, attributes | {"gen_ai.operation.name": "retrieval"}
    provider, _, model = step.model.partition("/")
    return f"chat {model or provider}", {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model or provider,
        "gen_ai.response.finish_reasons": [reply.finish_reason for reply in step.replies],
        **_usage(sum((reply.usage for reply in step.replies), Usage())),
    }


def _usage(usage: Usage) -> dict[str, int]:
    return {"gen_ai.usage.input_tokens": usage.prompt, "gen_ai.usage.output_tokens": usage.completion}
