"""What OpenTelemetry is told: a span for each operation, counters, durations, what waits; and nothing that was said."""

import asyncio
import inspect
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricsData
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from backscroll import (
    AsyncBackscroll,
    Backscroll,
    InvalidRequest,
    OpenTelemetry,
    Requester,
    SessionNotFound,
    Settings,
)
from backscroll.infrastructure.engine import begun, create_engine
from backscroll.infrastructure.pending import leave_all_pending

OPERATOR = Requester.operator()
KEY = "agent:main:heliotrope-key"
WORD = "heliotrope"
"""Everything that a caller writes holds it, and nothing that is told may."""


@dataclass
class Host:
    """A host's OpenTelemetry, which keeps in memory what it is told."""

    spans: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    metrics: InMemoryMetricReader = field(default_factory=InMemoryMetricReader)

    def __post_init__(self) -> None:
        self.tracing = TracerProvider(shutdown_on_exit=False)
        self.tracing.add_span_processor(SimpleSpanProcessor(self.spans))
        self.metering = MeterProvider([self.metrics], shutdown_on_exit=False)

    def telemetry(self, **attributes: str) -> OpenTelemetry:
        return OpenTelemetry(tracer_provider=self.tracing, meter_provider=self.metering, attributes=attributes or None)

    def close(self) -> None:
        self.tracing.shutdown()
        self.metering.shutdown()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans.get_finished_spans() if span.name == name]

    def last(self) -> tuple[str, Mapping[str, Any]]:
        span = self.spans.get_finished_spans()[-1]
        return span.name, dict(span.attributes or {})

    def points(self) -> dict[str, list[Any]]:
        """The points of each metric."""
        data = self.metrics.get_metrics_data() or MetricsData([])
        return {
            metric.name: list(metric.data.data_points)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def value(self, name: str) -> int | float:
        (point,) = self.points()[name]
        value: int | float = point.value
        return value


@pytest.fixture
def host() -> Iterator[Host]:
    host = Host()
    yield host
    host.close()


def settings(path: Path, **more: Any) -> Settings:
    return Settings(database_url=f"sqlite:///{path}", synchronous="NORMAL", **more)


def leave_pending(path: Path) -> None:
    engine = create_engine(f"sqlite:///{path}", busy_timeout=5, synchronous="NORMAL")
    with begun(engine, writing=True) as connection:
        leave_all_pending(connection)
        connection.commit()
    engine.dispose()


def told(operation: str, **facts: object) -> tuple[str, dict[str, object]]:
    """A span's name and attributes."""
    common: dict[str, object] = {
        "db.system.name": "sqlite",
        "db.operation.name": operation,
        "backscroll.background": False,
    }
    return f"backscroll.{operation}", common | {f"backscroll.{name}": fact for name, fact in facts.items()}


def test_each_call_is_a_span_with_its_facts(host: Host, store_path: Path, tmp_path: Path) -> None:
    transcript = tmp_path / "one.jsonl"
    transcript.write_text((Path(__file__).parents[1] / "fixtures/transcripts/linear.jsonl").read_text())
    with Backscroll.open(settings(store_path), telemetry=host.telemetry()) as scroll:

        def expect(operation: str, **facts: object) -> None:
            assert host.last() == told(operation, **facts)

        scroll.ensure_session(KEY, title=f"{WORD} title", metadata={WORD: WORD})
        expect("ensure_session", kind="other")
        scroll.append(KEY, "user", f"{WORD} one", message_id=f"{WORD}1", metadata={WORD: WORD})
        expect("append", messages=1, role="user")
        scroll.append_many(KEY, [{"role": "assistant", "content": WORD, "message_id": f"{WORD}{n}"} for n in (2, 3)])
        expect("append_many", messages=2)
        scroll.edit(KEY, f"{WORD}3", f"{WORD} three")
        expect("edit", role="assistant")
        scroll.rewind(KEY, f"{WORD}2")
        expect("rewind")
        (_, other) = scroll.branches(KEY)
        expect("branches", branches=2)
        scroll.switch_branch(KEY, other.branch_id)
        expect("switch_branch")
        scroll.reset(KEY, reason="daily", rotate=True, new_session_id=f"{WORD}-transcript")
        expect("reset", reason="daily", rotated=True)
        scroll.search(WORD, requester=OPERATOR)
        expect("search", match="all", order="relevance", hits=3, indexing=False, truncated=False)
        scroll.search(WORD, requester=OPERATOR, session_key=KEY, match="prefix", order="newest", limit=1)
        expect("search", match="prefix", order="newest", hits=1, indexing=False, truncated=True)
        scroll.history(KEY, requester=OPERATOR)
        expect("history", anchored=False, messages=0, truncated=False, redacted=False)
        scroll.sessions(requester=OPERATOR)
        expect("sessions", sessions=1)
        scroll.reindex()
        expect("reindex", transcripts=0, failed=0)
        scroll.verify()
        expect("verify", ok=True, pending=0, problems=0)
        scroll.repair()
        expect("repair", ok=True, pending=0, problems=0)
        gained = scroll.maintain()
        expect("maintain", bytes_before=gained.bytes_before, bytes_after=gained.bytes_after, vacuumed=False)
        report = scroll.import_transcripts(transcript, agent_id=WORD)
        assert report.messages
        expect("import_transcripts", files=1, sessions=1, messages=report.messages, bad=0)
        scroll.prune(older_than=timedelta(days=1))
        expect("prune", sessions=1, deleted=False)
        scroll.delete_session(KEY)
        expect("delete_session", deleted=True)

    spans = host.spans.get_finished_spans()
    public = {name for name, _ in inspect.getmembers(Backscroll, inspect.isfunction) if not name.startswith("_")}
    assert {span.name.removeprefix("backscroll.") for span in spans} == public - {"open", "using", "close"}
    assert {span.kind for span in spans} == {SpanKind.INTERNAL}
    assert {span.status.status_code for span in spans} == {StatusCode.UNSET}
    assert host.value("backscroll.appends") == 3 + report.messages
    assert host.value("backscroll.searches") == 2
    assert host.value("backscroll.pending") == 0
    assert host.value("backscroll.reindexed") == 0
    durations = host.points()["backscroll.operation.duration"]
    assert sum(point.count for point in durations) == len(spans)
    assert {tuple(sorted(point.attributes)) for point in durations} == {("db.operation.name", "db.system.name")}
    assert WORD not in "".join(span.to_json() for span in spans) + repr(host.points())


def test_a_failure_is_told_by_its_type_alone(host: Host, store_path: Path) -> None:
    def failing(event: object) -> None:
        raise LookupError(WORD)

    with Backscroll.open(settings(store_path), telemetry=host.telemetry(), audit=failing) as scroll:
        with pytest.raises(SessionNotFound):
            scroll.append(KEY, "user", WORD)
        scroll.ensure_session(KEY)
        with pytest.raises(InvalidRequest, match=WORD):
            scroll.append(KEY, WORD, WORD)
        with pytest.raises(InvalidRequest, match=WORD):
            scroll.search(WORD, requester=OPERATOR, match=WORD)
        with pytest.raises(LookupError):
            scroll.search(WORD, requester=OPERATOR)
        with pytest.raises(TypeError):
            scroll.history(KEY, heliotrope=WORD)  # type: ignore[call-arg]
    failed = [span for span in host.spans.get_finished_spans() if span.status.status_code is StatusCode.ERROR]
    assert [(span.attributes or {})["error.type"] for span in failed] == [
        "SessionNotFound",
        "InvalidRequest",
        "InvalidRequest",
        "LookupError",
        "TypeError",
    ]
    assert all(span.status.description is None and span.events == () for span in failed)
    points = host.points()
    assert {point.attributes.get("error.type") for point in points["backscroll.operation.duration"]} == {
        None,
        "SessionNotFound",
        "InvalidRequest",
        "LookupError",
        "TypeError",
    }
    assert "backscroll.searches" not in points
    assert WORD not in "".join(span.to_json() for span in host.spans.get_finished_spans()) + repr(points)


def test_a_callers_span_holds_the_calls_and_the_background_has_a_trace_of_its_own(host: Host, store_path: Path) -> None:
    with Backscroll.open(settings(store_path)) as plain:
        plain.ensure_session(KEY)
        plain.append_many(KEY, [{"role": "user", "content": WORD}] * 3)
    leave_pending(store_path)
    with Backscroll.open(settings(store_path), telemetry=host.telemetry()) as scroll:
        with host.tracing.get_tracer("host").start_as_current_span("request") as request:
            assert scroll.search(WORD, requester=OPERATOR).indexing
        for _ in range(6_000):
            if host.named("backscroll.reindex"):
                break
            time.sleep(0.005)
    check_background(host, request.get_span_context().span_id)


def test_it_is_the_same_on_an_event_loop(host: Host, store_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> int:
        async with AsyncBackscroll.open(settings(store_path), telemetry=host.telemetry()) as scroll:
            await scroll.ensure_session(KEY)
            await scroll.append_many(KEY, [{"role": "user", "content": WORD}] * 3)
            leave_pending(store_path)
            host.spans.clear()
            tracer = host.tracing.get_tracer("host")

            async def asked(number: int) -> tuple[int, int]:
                with tracer.start_as_current_span(f"request {number}") as request:
                    page = await scroll.history(KEY, requester=OPERATOR, limit=number)
                    with pytest.raises(SessionNotFound):
                        await scroll.history(f"{KEY}-unknown", requester=OPERATOR)
                return request.get_span_context().span_id, len(page.messages)

            # Several at once, each below the span of its own task.
            expected = await asyncio.gather(*map(asked, (1, 2, 3)))
            spans = [one for one in host.named("backscroll.history") if one.status.status_code is StatusCode.UNSET]
            found = [
                (one.parent and one.parent.span_id, (one.attributes or {})["backscroll.messages"]) for one in spans
            ]
            assert sorted(found) == sorted(expected)
            with tracer.start_as_current_span("request") as request:
                assert (await scroll.search(WORD, requester=OPERATOR)).indexing
            for _ in range(6_000):
                if host.named("backscroll.reindex"):
                    break
                await asyncio.sleep(0.005)
        return request.get_span_context().span_id

    request = asyncio.run(main())
    check_background(host, request)
    assert [record for record in caplog.records if record.name.startswith("opentelemetry")] == []


def check_background(host: Host, request: int) -> None:
    (search,) = host.named("backscroll.search")
    assert search.parent is not None
    assert search.parent.span_id == request
    assert (search.attributes or {})["backscroll.indexing"] is True
    (reindex, *_) = host.named("backscroll.reindex")
    assert reindex.parent is None
    assert reindex.context.trace_id != search.context.trace_id
    facts = {"backscroll.background": True, "backscroll.transcripts": 1, "backscroll.failed": 0}
    assert facts.items() <= dict(reindex.attributes or {}).items()
    assert host.value("backscroll.pending") == 0


def test_what_waits_is_told_when_reindexing_looks_and_at_no_other_time(host: Host, store_path: Path) -> None:
    with Backscroll.open(settings(store_path, background_reindex=False), telemetry=host.telemetry()) as scroll:
        for number in range(3):
            scroll.ensure_session(f"agent:main:{number}")
            scroll.append(f"agent:main:{number}", "user", WORD)
        leave_pending(store_path)
        assert scroll.search(WORD, requester=OPERATOR).indexing
        assert "backscroll.pending" not in host.points()
        seen: list[int | float] = []
        scroll.reindex(progress=lambda done, total: seen.append(host.value("backscroll.pending")))
        assert seen[0] == 3
        assert host.value("backscroll.pending") == 0


def test_stores_of_one_process_are_told_apart_by_the_hosts_attributes(host: Host, tmp_path: Path) -> None:
    for name, appends in (("one", 1), ("two", 2)):
        with Backscroll.open(settings(tmp_path / name), telemetry=host.telemetry(store=name)) as scroll:
            scroll.ensure_session(KEY)
            for _ in range(appends):
                scroll.append(KEY, "user", WORD)
    points = {point.attributes["store"]: point.value for point in host.points()["backscroll.appends"]}
    assert points == {"one": 1, "two": 2}
    assert {(span.attributes or {})["store"] for span in host.spans.get_finished_spans()} == {"one", "two"}


def test_a_facade_inside_a_hosts_transaction_is_watched_too(host: Host, store_path: Path) -> None:
    engine = create_engine(f"sqlite:///{store_path}", busy_timeout=5, synchronous="NORMAL")
    with Backscroll.open(engine, telemetry=host.telemetry()) as scroll, engine.begin() as connection:
        scroll.using(connection).ensure_session(KEY)
        assert host.named("backscroll.ensure_session")
    engine.dispose()


PROVIDERS = """
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from backscroll import Backscroll
scroll = Backscroll.open("sqlite://")
scroll.ensure_session("agent:a:b")
spans, reader, provider = InMemorySpanExporter(), InMemoryMetricReader(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
metrics.set_meter_provider(MeterProvider([reader]))
scroll.append("agent:a:b", "user", "x")
scroll.close()
print([span.name for span in spans.get_finished_spans()], "backscroll.appends" in str(reader.get_metrics_data()))
"""


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, env=environment
    )


def test_a_setting_turns_it_on_and_the_process_own_providers_may_come_later() -> None:
    result = run(PROVIDERS, BACKSCROLL_TELEMETRY="otel")
    assert (result.stdout, result.stderr) == ("['backscroll.append'] True\n", "")
    assert run(PROVIDERS).stdout == "[] False\n"


def test_without_the_extra_the_error_names_it_and_nothing_is_made(tmp_path: Path) -> None:
    program = (
        "import sys, asyncio; sys.modules['opentelemetry'] = None\n"
        "from backscroll import AsyncBackscroll, Backscroll, InvalidRequest, Settings\n"
        f"url = 'sqlite:///{tmp_path}/store.db'\n"
        "async def open_it():\n    await AsyncBackscroll.open(url)\n"
        "for attempt in (lambda: Backscroll.open(url), lambda: asyncio.run(open_it())):\n"
        "    try:\n        attempt()\n    except InvalidRequest as error:\n        print(error)\n"
    )
    result = run(program, BACKSCROLL_TELEMETRY="otel")
    assert result.stdout == 2 * "OpenTelemetry needs the package opentelemetry-api: pip install 'backscroll[otel]'\n"
    assert list(tmp_path.iterdir()) == []
    assert run(program).returncode == 0


def test_off_loads_nothing_of_opentelemetry() -> None:
    program = (
        "import sys, backscroll; backscroll.Backscroll.open('sqlite://').close(); print('opentelemetry' in sys.modules)"
    )
    assert run(program).stdout == "False\n"
