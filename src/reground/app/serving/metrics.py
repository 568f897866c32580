"""Figures for Prometheus. Labels hold names of offers, paths and statuses alone, so that their number is bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from reground.core.trajectory import GenerateStep

if TYPE_CHECKING:
    from reground.app.serving.engine import Engine
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
