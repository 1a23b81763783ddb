"""OpenTelemetry: a span for each operation, counters, durations, and what waits.

Only its API is needed, of the extra `backscroll[otel]`: where spans and metrics go is decided by the providers that the
host sets up, and without any they go nowhere. The package is imported when somebody asks for it.

Names follow OpenTelemetry's conventions for databases where these fit: `db.system.name`, `db.operation.name`,
`error.type`, and the buckets of a duration. Source: https://opentelemetry.io/docs/specs/semconv/db/. A call of the
facade is not one statement but several, which an instrumented engine tells as spans of kind client inside ours; so
ours are internal and have a duration of their own name.
"""

import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Literal, TypeVar

from backscroll.domain.errors import InvalidRequest
from backscroll.domain.telemetry import NO_TELEMETRY, Counter, Outcome, Telemetry

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

T = TypeVar("T")
_NAME = "backscroll"
_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
"""The buckets that the conventions recommend for `db.client.operation.duration`."""
_COUNTERS = {
    Counter.APPENDS: ("{message}", "Messages stored by appends and imports."),
    Counter.SEARCHES: ("{search}", "Searches answered."),
    Counter.REINDEXED: ("{message}", "Messages put into the index or taken out of it by reindexing."),
}


class OpenTelemetry:
    """Tells OpenTelemetry what a store does; `backscroll[otel]` brings its API.

    Args:
        tracer_provider: where spans go; the process's own if left out.
        meter_provider: where metrics go; the process's own if left out.
        attributes: go on every span and metric, to tell stores of one process apart.

    Raises:
        InvalidRequest: the package `opentelemetry-api` is not there.
    """

    def __init__(
        self,
        *,
        tracer_provider: "TracerProvider | None" = None,
        meter_provider: "MeterProvider | None" = None,
        attributes: Mapping[str, str | bool | int | float] | None = None,
    ) -> None:
        try:
            from opentelemetry import metrics, trace
            from opentelemetry.context import Context
        except ImportError as error:
            raise InvalidRequest(
                "OpenTelemetry needs the package opentelemetry-api: pip install 'backscroll[otel]'"
            ) from error
        release = version(_NAME)
        self._tracer = trace.get_tracer(_NAME, release, tracer_provider)
        self._error = trace.Status(trace.StatusCode.ERROR)
        self._nobody = Context()
        self._attributes = {"db.system.name": "sqlite", **(attributes or {})}
        meter = metrics.get_meter(_NAME, release, meter_provider)
        self._counters = {
            counter: meter.create_counter(f"{_NAME}.{counter}", unit, description)
            for counter, (unit, description) in _COUNTERS.items()
        }
        self._pending = meter.create_gauge(
            f"{_NAME}.pending", "{transcript}", "Transcripts that wait to be reindexed, when reindexing last looked."
        )
        self._duration = meter.create_histogram(
            f"{_NAME}.operation.duration",
            "s",
            "How long operations took.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )

    def observed(
        self, operation: str, work: Callable[[], T], outcome: Callable[[T], Outcome], *, background: bool = False
    ) -> T:
        """Does the work inside a span, which no span of a caller's holds if it is done in the `background`."""
        attributes = {**self._attributes, "db.operation.name": operation}
        with self._tracer.start_as_current_span(
            f"{_NAME}.{operation}",
            context=self._nobody if background else None,
            attributes={**attributes, f"{_NAME}.background": background},
            # Both would tell an error's message.
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            start = time.perf_counter()
            try:
                result = work()
            except BaseException as error:
                attributes["error.type"] = type(error).__name__
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(self._error)
                raise
            finally:
                self._duration.record(time.perf_counter() - start, attributes)
            self._tell(span, outcome(result))
            return result

    def _tell(self, span: "Span", outcome: Outcome) -> None:
        for name, fact in outcome.facts.items():
            span.set_attribute(f"{_NAME}.{name}", str(fact) if isinstance(fact, str) else fact)
        for counter, number in outcome.counts.items():
            self.count(counter, number)

    def count(self, counter: Counter, number: int) -> None:
        """Adds to a counter."""
        self._counters[counter].add(number, self._attributes)

    def pending(self, transcripts: Callable[[], int]) -> None:
        """Asks, and sets the gauge."""
        self._pending.set(transcripts(), self._attributes)


def telemetry_named(name: Literal["off", "otel"]) -> Telemetry:
    """The telemetry that a setting names."""
    return OpenTelemetry() if name == "otel" else NO_TELEMETRY
