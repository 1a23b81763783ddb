"""The readers of OpenClaw and pi transcripts: what they find in a folder, and what they make of each line."""

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.domain.errors import ImportFailed, InvalidRequest
from backscroll.domain.model import ResetReason, Role, SessionKind
from backscroll.domain.parts import (
    AttachmentPart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    text_of,
)
from backscroll.domain.ports import TranscriptReader
from backscroll.domain.records import (
    BadLine,
    HeadRecord,
    MessageRecord,
    ReadLine,
    Record,
    ResetRecord,
    SkippedRecord,
    TitleRecord,
    TranscriptFile,
)
from backscroll.infrastructure.importers import discovery, readers
from backscroll.infrastructure.importers.jsonl_sessions import JsonlSessionReader, PiSessionReader
from backscroll.infrastructure.importers.times import moment

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures" / "transcripts"
EXAMPLES = ROOT / "examples" / "transcripts"
SHARED = ROOT.parent / "shared" / "data"
SURROGATE = "\ud83d"

Write = Callable[..., Path]


def header(session_id: str = "S1", **more: object) -> dict[str, object]:
    return {"type": "session", "version": 3, "id": session_id, "timestamp": "2026-02-01T09:00:00.000Z", **more}


def said(
    message_id: object, parent: object, text: str = "hello", role: str = "user", **more: object
) -> dict[str, object]:
    return {
        "type": "message",
        "id": message_id,
        "parentId": parent,
        "message": {"role": role, "content": [{"type": "text", "text": text}]},
        **more,
    }


def entry(kind: str, record_id: object, parent: object, **more: object) -> dict[str, object]:
    return {"type": kind, "id": record_id, "parentId": parent, **more}


def with_content(content: object, role: str = "assistant", **more: object) -> dict[str, object]:
    return {
        "type": "message",
        "id": "m1",
        "parentId": None,
        "message": {"role": role, "content": content, **more},
    }


def encoded(line: object) -> bytes:
    return line if isinstance(line, bytes) else json.dumps(line).encode()


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes lines (objects or bytes) into a file below the temporary folder."""

    def write_file(*lines: object, name: str = "S1.jsonl") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(encoded(line) + b"\n" for line in lines))
        return path

    return write_file


def reads(path: Path, reader: JsonlSessionReader | None = None) -> list[ReadLine]:
    reader = reader or JsonlSessionReader()
    return [line for file in reader.files(path, None) for line in reader.records(path, file)]


def records(path: Path, reader: JsonlSessionReader | None = None) -> list[Record]:
    return [line.record for line in reads(path, reader)]


def messages(found: Iterable[Record]) -> list[MessageRecord]:
    return [record for record in found if isinstance(record, MessageRecord)]


def parents(found: Iterable[Record]) -> dict[str, str | None]:
    return {record.message_id: record.parent_id for record in messages(found)}


def bad_lines(found: Iterable[Record]) -> dict[int, str]:
    return {record.line: record.reason for record in found if isinstance(record, BadLine)}


def skipped(found: Iterable[Record]) -> list[str]:
    return [record.type for record in found if isinstance(record, SkippedRecord)]


def last_head(found: Iterable[Record]) -> str | None:
    head = None
    for record in found:
        if isinstance(record, MessageRecord | HeadRecord):
            head = record.message_id
    return head


def active_path(found: list[Record]) -> list[MessageRecord]:
    by_id = {record.message_id: record for record in messages(found)}
    path: list[MessageRecord] = []
    current = last_head(found)
    while current is not None:
        path.append(by_id[current])
        current = by_id[current].parent_id
    return path[::-1]


def parts_in(write: Write, message: dict[str, object]) -> tuple[Part, ...]:
    (record,) = records(write(header(), message))
    assert isinstance(record, MessageRecord)
    return record.parts


def files(path: Path, agent_id: str | None = None) -> list[TranscriptFile]:
    return list(JsonlSessionReader().files(path, agent_id))


# Lines


def test_bad_lines_are_named_and_hide_nothing() -> None:
    found = records(FIXTURES / "ten-lines.jsonl")
    assert list(bad_lines(found)) == [4, 6, 8, 10]
    assert skipped(found) == ["new-thing"]
    assert [text_of(record.parts) for record in messages(found)] == [
        "Where is the spare key?",
        "Behind the blue door.",
        "And the other one?",
    ]
    assert parents(found) == {"t2": None, "t3": "t2", "t5": "t3"}  # the parent of t5 is the line that was cut


def test_a_line_completed_later_is_read_then(tmp_path: Path) -> None:
    path = tmp_path / "ten-lines.jsonl"
    shutil.copy(FIXTURES / "ten-lines.jsonl", path)
    before = messages(records(path))
    tail = encoded(said("t10", "t7", "The other one is lost.", "assistant"))
    begun = path.read_bytes().rpartition(b"\n")[0]
    path.write_bytes(begun + b"\n" + tail + b"\n" + encoded(said("t11", "t10", "Then make a third.")) + b"\n")
    after = messages(records(path))
    assert after[: len(before)] == before
    assert [(record.message_id, record.parent_id) for record in after[len(before) :]] == [("t10", "t5"), ("t11", "t10")]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"type": "message', "not valid JSON"),
        (b"\x00\x00\x00", "not valid JSON"),
        (b"[1]", "no object"),
        (b'"text"', "no object"),
        (b"null", "no object"),
        (b'{"type": "label\xff"}', "not valid UTF-8 at byte 16"),
        (b'{"type": "\xed\xa0\x80"}', "not valid UTF-8"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"type":"custom","data":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b'{"id": "m9"}', "without a type"),
        (b'{"type": 4}', "without a type"),
        (b'{"type": "message", "id": "m9"}', "has a role"),
        (b'{"type": "message", "id": "m9", "message": {"content": "x"}}', "has a role"),
        (b'{"type": "message", "id": "m9", "message": [1]}', "has a role"),
    ],
)
def test_a_line_that_cannot_be_read(write: Write, line: bytes, reason: str) -> None:
    found = records(write(header(), said("m1", None), line, said("m2", "m9")))
    assert list(bad_lines(found)) == [3]
    assert reason in bad_lines(found)[3]
    assert parents(found) == {"m1": None, "m2": "m1"}


def test_a_bad_line_repeats_nothing_of_what_is_in_it(write: Write) -> None:
    (reason,) = bad_lines(records(write(header(), b'{"type":"message","text":"sk-secret-0123456789'))).values()
    assert "secret" not in reason


def test_a_line_longer_than_allowed_is_passed_over(write: Write) -> None:
    longest = len(encoded(said("m2", "m1", "x" * 500)))
    path = write(
        header(),
        said("m1", None),
        said("m2", "m1", "x" * 500),
        said("m3", "m2", "x" * 501),
        said("m4", "m3", "y" * 3_000_000),
        said("m5", "m4"),
    )
    found = records(path, JsonlSessionReader(longest))
    assert bad_lines(found) == dict.fromkeys([4, 5], f"longer than {longest} bytes")
    assert parents(found) == {"m1": None, "m2": "m1", "m5": "m2"}


@pytest.mark.parametrize("tail", [b"", b"\n", b"\n\n \r\n\t\n"])
def test_progress_ends_at_the_size_of_the_file(write: Write, tail: bytes) -> None:
    path = write(header(), b"", said("m1", None), b"  \r", said("m2", "m1"))
    path.write_bytes(path.read_bytes().rstrip() + tail)
    done = [line.bytes_done for line in reads(path)]
    assert len(done) == 2
    assert done[-1] == path.stat().st_size
    assert done == sorted(done)


def test_line_ends_of_other_systems_and_a_byte_order_mark(write: Write) -> None:
    path = write(b"\xef\xbb\xbf" + encoded(header()) + b"\r", encoded(said("m1", None, "one")) + b"\r")
    assert [text_of(record.parts) for record in messages(records(path))] == ["one"]


def test_a_line_separator_inside_a_text_ends_no_line(write: Write) -> None:
    line = json.dumps(said("m1", None, "a\u2028b\x85c"), ensure_ascii=False).encode()
    assert [text_of(record.parts) for record in messages(records(write(header(), line)))] == ["a\u2028b\x85c"]


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999", "7" * 5_000, "-" + "7" * 700])
def test_numbers_that_python_or_json_cannot_hold(write: Write, number: str) -> None:
    call = {"type": "toolCall", "id": "c", "name": "n", "arguments": {"x": "HERE"}}
    line = json.dumps(with_content([call])).replace('"HERE"', number)
    (record,) = records(write(header(), line.encode()))
    assert isinstance(record, MessageRecord)
    assert record.parts == (ToolCallPart("n", json.dumps({"x": number}, separators=(",", ":")), "c"),)


def test_of_equal_keys_the_last_one_counts(write: Write) -> None:
    line = b'{"type":"label","type":"message","id":"m1","message":{"role":"user","content":"hi","content":"ho"}}'
    assert [text_of(record.parts) for record in messages(records(write(header(), line)))] == ["ho"]


# Texts, ids, times


def test_surrogates_and_nul_are_replaced_and_pairs_stay(write: Write) -> None:
    call = {"type": "toolCall", "id": "c" + SURROGATE, "name": "n" + SURROGATE, "arguments": {"a": "v" + SURROGATE}}
    found = records(
        write(
            header(cwd="/a" + SURROGATE),
            entry("session_info", "i1", None, name="title " + SURROGATE),
            said("m" + SURROGATE, "i1", "one \ud83d two \U0001f350 \x00"),
            with_content([call], "assistant") | {"parentId": "m" + SURROGATE},
            said("m3", "m1", "after"),
        )
    )
    assert found[0] == TitleRecord(line=2, title="title \ufffd")
    assert parents(found) == {"m\ufffd": None, "m1": "m\ufffd", "m3": "m1"}
    assert text_of(messages(found)[0].parts) == "one \ufffd two \U0001f350 \ufffd"
    assert messages(found)[1].parts == (ToolCallPart("n\ufffd", '{"a":"v\ufffd"}', "c\ufffd"),)


@pytest.mark.parametrize(
    ("message_id", "reason"),
    [("", "must not be empty"), ("x" * 257, "at most 256"), (7, "must be a string"), ("a\nb", "control characters")],
)
def test_an_id_that_cannot_be_one(write: Write, message_id: object, reason: str) -> None:
    found = records(write(header(), said("m1", None), said(message_id, "m1"), said("m2", message_id)))
    assert reason in bad_lines(found)[3]
    assert parents(found) == {"m1": None, "m2": "m1"}


def test_a_message_id_appears_once(write: Write) -> None:
    found = records(
        write(
            header(),
            said("m1", None, "one"),
            said("m2", "m1", "two"),
            said("m1", "m2", "one"),
            said("m1", "m1", "other"),
            said("m3", "m2", "three"),
        )
    )
    assert parents(found) == {"m1": None, "m2": "m1", "m3": "m2"}
    assert skipped(found) == ["message:repeated"]
    assert "same id" in bad_lines(found)[5]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-02-01T09:00:00.250Z", datetime(2026, 2, 1, 9, 0, 0, 250_000, tzinfo=UTC)),
        ("2026-02-01T10:00:00+01:00", datetime(2026, 2, 1, 9, 0, tzinfo=UTC)),
        ("2026-02-01T09:00:00", datetime(2026, 2, 1, 9, 0, tzinfo=UTC)),
        (1_769_936_400_250, datetime(2026, 2, 1, 9, 0, 0, 250_000, tzinfo=UTC)),
        (-1.5, datetime(1969, 12, 31, 23, 59, 59, 998_500, tzinfo=UTC)),
        ("0001-01-01T00:00:00+05:00", None),
        ("9999-12-31T23:59:59-05:00", None),
        ("soon", None),
        ("", None),
        (SURROGATE, None),
        (10**30, None),
        (float("nan"), None),
        (float("inf"), None),
        (True, None),
        (None, None),
        ([], None),
    ],
)
def test_times(value: object, expected: datetime | None) -> None:
    assert moment(value) == expected


def test_a_time_missing_in_the_record_is_taken_from_the_message(write: Write) -> None:
    entry_time, message_time = "2026-02-01T09:00:00Z", 1_769_936_500_000
    first = said("m1", None, timestamp=entry_time)
    second = with_content("x", "user", timestamp=message_time) | {"id": "m2", "timestamp": "never"}
    third = said("m3", "m2", timestamp="2026-13-45")
    times = [record.created_at for record in messages(records(write(header(), first, second, third)))]
    assert times == [moment(entry_time), moment(message_time), None]


# Roles and blocks


def test_blocks_become_parts(write: Write) -> None:
    content = [
        {"type": "thinking", "thinking": "hm", "thinkingSignature": "s"},
        {"type": "text", "text": "first", "textSignature": "{}"},
        {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls -a", "n": [1, 2.5, None]}},
        {"type": "tool_use", "id": "c2", "name": "read", "input": {"path": "ä"}},
        {"type": "functionCall", "name": "raw", "arguments": '{"as": "text"}'},
        {"type": "toolCall"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "image", "url": "https://x.example/a.png"},
        {"type": "text", "text": ""},
        {"type": "hologram"},
        "text",
    ]
    assert parts_in(write, with_content(content)) == (
        ReasoningPart("hm"),
        TextPart("first"),
        ToolCallPart("bash", '{"command":"ls -a","n":[1,2.5,null]}', "c1"),
        ToolCallPart("read", '{"path":"ä"}', "c2"),
        ToolCallPart("raw", '{"as": "text"}'),
        ToolCallPart("unknown"),
        AttachmentPart("image/png", "data:image/png;base64,aGk="),
        AttachmentPart("application/octet-stream", "https://x.example/a.png"),
    )


def test_plain_content(write: Write) -> None:
    assert parts_in(write, with_content("  plain\n", "user")) == (TextPart("  plain\n"),)


def test_a_tool_result(write: Write) -> None:
    content = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}, {"type": "image", "data": "aGk="}]
    result = with_content(content, "toolResult", toolCallId="c1", toolName="bash", isError=True)
    assert parts_in(write, result) == (
        ToolResultPart("one", "c1", "bash", True),
        ToolResultPart("two", "c1", "bash", True),
        AttachmentPart("application/octet-stream", "data:application/octet-stream;base64,aGk="),
    )
    (record,) = messages(records(write(header(), result)))
    assert record.role is Role.TOOL
    assert parts_in(write, with_content([], "toolResult", toolCallId="c1")) == (ToolResultPart("", "c1"),)


def test_a_command_that_the_user_ran(write: Write) -> None:
    message = {"role": "bashExecution", "command": "make", "output": "no rule", "exitCode": 2, "cancelled": False}
    (record,) = messages(records(write(header(), {"type": "message", "id": "m1", "message": message})))
    assert record.role is Role.TOOL
    assert record.parts == (ToolCallPart("bash", '{"command":"make"}'), ToolResultPart("no rule", None, "bash", True))


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ({"role": "system", "content": "", "sections": {"rules": "be good"}}, "message:system:empty"),
        ({"role": "system", "content": [{"type": "text", "text": " \n"}]}, "message:system:empty"),
        ({"role": "assistant", "content": [], "stopReason": "error"}, "message:assistant:empty"),
        ({"role": "assistant", "content": [{"type": "hologram"}]}, "message:assistant:empty"),
        ({"role": "user", "content": 7}, "message:user:empty"),
        ({"role": "user"}, "message:user:empty"),
        ({"role": "custom", "customType": "x", "content": "put in"}, "message:custom"),
        ({"role": "branchSummary", "summary": "…"}, "message:branchSummary"),
        ({"role": "compactionSummary", "summary": "…"}, "message:compactionSummary"),
        ({"role": "oracle" * 50, "content": "x"}, ("message:" + "oracle" * 50)[:64]),
    ],
)
def test_messages_that_are_left_out(write: Write, message: dict[str, object], kind: str) -> None:
    left_out = {"type": "message", "id": "m2", "parentId": "m1", "message": message}
    found = records(write(header(), said("m1", None), left_out, said("m3", "m2")))
    assert skipped(found) == [kind]
    assert parents(found) == {"m1": None, "m3": "m1"}


def test_a_system_message_with_text(write: Write) -> None:
    (record,) = messages(records(write(header(), with_content("Be brief.", "system"))))
    assert (record.role, record.parts) == (Role.SYSTEM, (TextPart("Be brief."),))


def test_a_message_that_the_program_sent_in_the_users_name(write: Write) -> None:
    (record,) = messages(
        records(write(header(), with_content("woken", "user", provenance={"kind": "internal_system"})))
    )
    assert (record.role, record.parts) == (Role.SYSTEM, (TextPart("woken"),))


# The tree


def test_the_tree_fixture() -> None:
    found = records(FIXTURES / "tree.jsonl")
    assert parents(found) == {
        "m1": None,
        "m2": "m1",
        "m3": "m2",
        "m4": "m3",
        "m5": "m4",
        "m6": "m5",
        "m7": "m4",
        "m8": "m7",
        "m9": "m4",
        "m10": "m9",
        "m11": "m10",  # it names a message before the reset, where nothing continues any more
    }
    assert [record for record in found if isinstance(record, TitleRecord)] == [
        TitleRecord(line=3, title="Lighthouse rota")
    ]
    assert [(record.line, record.message_id) for record in found if isinstance(record, HeadRecord)] == [
        (11, "m4"),  # the branch summary goes on from there
        (15, "m4"),  # the leaf, whose target is a label
    ]
    assert [record for record in found if isinstance(record, ResetRecord)] == [
        ResetRecord(
            line=17,
            reset_id="r1",
            after="m9",
            reason=ResetReason.IDLE,
            first_kept="m9",
            created_at=datetime(2026, 2, 2, 10, 0, 16, tzinfo=UTC),
        )
    ]
    assert skipped(found) == ["model_change", "label", "branch_summary", "compaction", "custom"]
    assert [record.message_id for record in active_path(found)] == ["m1", "m2", "m3", "m4", "m9", "m10", "m11"]


def test_version_1_without_ids() -> None:
    found = records(FIXTURES / "linear.jsonl")
    assert parents(found) == {"line-2": None, "line-4": "line-2", "line-6": "line-4"}
    assert [record.created_at for record in messages(found)] == [
        datetime(2025, 11, 3, 7, 0, 1, tzinfo=UTC),
        datetime(2025, 11, 3, 7, 0, 3, tzinfo=UTC),
        None,
    ]
    assert skipped(found) == ["thinking_level_change", "compaction"]


def test_a_second_header_is_no_header(write: Write) -> None:
    found = records(write(header(), said("m1", None), header(), said("m2", "m1")))
    assert skipped(found) == ["session"]
    assert parents(found) == {"m1": None, "m2": "m1"}


@pytest.mark.parametrize("parent", ["nobody", "", 4, ["m1"]])
def test_an_unknown_parent_is_the_active_message(write: Write, parent: object) -> None:
    found = records(write(header(), said("m1", None), said("m2", "m1"), said("m3", parent)))
    assert parents(found)["m3"] == "m2"


def test_an_explicit_root_and_a_missing_parent(write: Write) -> None:
    continued = said("m3", None)
    del continued["parentId"]
    found = records(write(header(), said("m1", None), said("m2", None), continued))
    assert parents(found) == {"m1": None, "m2": None, "m3": "m2"}


def test_unknown_records_are_passed_through_and_move_nothing(write: Write) -> None:
    found = records(
        write(
            header(),
            said("m1", None),
            said("m2", "m1"),
            entry("new-thing", "n1", "m1"),
            entry("new-thing", "n2", "n1"),
            said("m3", "n2"),
        )
    )
    assert parents(found) == {"m1": None, "m2": "m1", "m3": "m1"}
    assert not any(isinstance(record, HeadRecord) for record in found)


def test_a_file_that_ends_elsewhere_than_in_its_last_message(write: Write) -> None:
    found = records(
        write(
            header(),
            said("m1", None),
            said("m2", "m1"),
            said("m3", "m2"),
            entry("branch_summary", "s1", "m1", fromId="m3", summary="…"),
        )
    )
    assert last_head(found) == "m1"


def test_leaves(write: Write) -> None:
    base = [header(), said("m1", None), said("m2", "m1"), said("m3", "m2")]
    assert last_head(records(write(*base, entry("leaf", "l1", "m3", targetId="m1")))) == "m1"
    assert last_head(records(write(*base, {"type": "leaf", "targetId": "m2"}))) == "m2"
    assert last_head(records(write(*base, entry("leaf", "l1", "m3", targetId=None)))) is None
    for target in ({"targetId": "nobody"}, {}, {"targetId": 3}, {"targetId": "m1", "appendParentId": "nobody"}):
        found = records(write(*base, entry("leaf", "l1", "m3", **target), said("m4", "l1")))
        assert skipped(found) == ["leaf"]
        assert parents(found)["m4"] == "m3"
    followed = records(write(*base, entry("leaf", "l1", "m3", targetId="m1"), said("m4", "l1")))
    assert parents(followed)["m4"] == "m1"


def test_a_leaf_whose_next_record_is_linked_elsewhere(write: Write) -> None:
    leaf = entry("leaf", "l1", "m3", targetId="m1", appendParentId="m3")
    found = records(write(header(), said("m1", None), said("m2", "m1"), said("m3", "m2"), leaf, said("m4", "m3")))
    assert parents(found)["m4"] == "m1"


def test_a_message_at_the_side_leaves_the_active_line(write: Write) -> None:
    aside = said("m2", "m1", appendMode="side")
    found = records(write(header(), said("m1", None), aside, said("m3", "m2")))
    assert parents(found) == {"m1": None, "m2": "m1", "m3": "m1"}
    assert [record.message_id for record in found if isinstance(record, HeadRecord)] == ["m1"]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("new", ResetReason.NEW), ("daily", ResetReason.DAILY), ("whim", ResetReason.RESET), (None, ResetReason.RESET)],
)
def test_resets(write: Write, reason: object, expected: ResetReason) -> None:
    found = records(
        write(
            header(),
            said("m1", None),
            entry("custom", "c1", "m1"),
            said("m2", "c1"),
            entry("reset", "r1", "m2", reason=reason, firstKeptEntryId="c1"),
            said("m3", "r1"),
            entry("reset", "r2", "m3", firstKeptEntryId="nobody"),
            said("m4", None),
        )
    )
    first, second = (record for record in found if isinstance(record, ResetRecord))
    assert (first.reset_id, first.after, first.reason, first.first_kept) == ("r1", "m2", expected, "m2")
    assert (second.after, second.first_kept) == ("m3", None)
    assert parents(found) == {"m1": None, "m2": "m1", "m3": "m2", "m4": "m3"}


def test_nothing_goes_back_behind_a_reset(write: Write) -> None:
    found = records(
        write(
            header(),
            said("m1", None),
            said("m2", "m1"),
            entry("reset", "r1", "m2", reason="new"),
            entry("leaf", "l1", "r1", targetId="m1"),
            said("m3", "m1"),
        )
    )
    assert parents(found)["m3"] == "m2"
    assert not any(isinstance(record, HeadRecord) for record in found)


def test_a_reset_before_any_message_and_one_on_another_line(write: Write) -> None:
    (reset, _) = records(write(header(), entry("reset", "r1", None, reason="new"), said("m1", "r1")))
    assert isinstance(reset, ResetRecord)
    assert reset.after is None
    found = records(write(header(), said("m1", None), said("m2", "m1"), entry("reset", "r1", "m1", reason="new")))
    assert found[2] == HeadRecord(line=4, message_id="m1")
    assert isinstance(found[3], ResetRecord)
    assert found[3].after == "m1"


def test_titles(write: Write) -> None:
    found = records(
        write(
            header(),
            entry("session_info", "i1", None, name=" " + "t" * 2_000),
            entry("session_info", "i2", "i1", name=" "),
            entry("session_info", "i3", "i2"),
        )
    )
    assert found[0] == TitleRecord(line=2, title="t" * 1_000)
    assert skipped(found) == ["session_info", "session_info"]


# Folders


@pytest.fixture
def folder(tmp_path: Path, write: Write) -> Path:
    registry = {
        "agent:kiosk:main": {
            "sessionId": "live",
            "usageFamilySessionIds": ["older", "live"],
            "updatedAt": 1_769_936_400_000,
            "chatType": "direct",
            "displayName": "Front " + SURROGATE,
            "label": "not this",
        },
        "discord:channel:7": {"sessionId": "group", "label": "Rota", "spawnedBy": "main"},
        "agent:kiosk:telegram:direct:bo": {"sessionId": "twice", "chatType": "room", "spawnedBy": ""},
    }
    sessions = "agents/kiosk/sessions"
    write(encoded(registry), name=f"{sessions}/sessions.json")
    for name, session_id in {
        "live.jsonl": "live",
        "group.jsonl": "group",
        "lost.jsonl": "lost",
        "twice.jsonl": "twice",
        "older.jsonl.reset.2026-01-01T00-00-00.000Z": "older",
        "twice.jsonl.reset.2026-01-03T00-00-00.000Z": "twice",
        "twice.jsonl.reset.2026-01-02T00-00-00.000Z": "twice",
        "gone.jsonl.reset.2026-01-02T00-00-00.000Z": "gone",
        "gone.jsonl.reset.2026-01-01T00-00-00.000Z": "gone",
        "live.trajectory.jsonl": "live",
        "live.checkpoint.11111111-2222-4333-8444-555555555555.jsonl": "live",
        "deleted.jsonl.deleted.2026-01-01T00-00-00.000Z": "deleted",
    }.items():
        write(header(session_id), said("m1", None, name), name=f"{sessions}/{name}")
    return tmp_path


def test_the_files_of_a_folder(folder: Path) -> None:
    found = files(folder)
    prefix = "agents/kiosk/sessions/"
    assert [(item.name.removeprefix(prefix), item.session_id, item.session_key, item.current) for item in found] == [
        ("gone.jsonl.reset.2026-01-01T00-00-00.000Z", "gone", "agent:kiosk:recovered:gone", False),
        (
            "gone.jsonl.reset.2026-01-02T00-00-00.000Z",
            "gone.reset.2026-01-02T00-00-00.000Z",
            "agent:kiosk:recovered:gone",
            True,
        ),
        ("group.jsonl", "group", "agent:kiosk:discord:channel:7", True),
        ("older.jsonl.reset.2026-01-01T00-00-00.000Z", "older", "agent:kiosk:main", False),
        ("live.jsonl", "live", "agent:kiosk:main", True),
        ("lost.jsonl", "lost", "agent:kiosk:recovered:lost", True),
        (
            "twice.jsonl.reset.2026-01-02T00-00-00.000Z",
            "twice.reset.2026-01-02T00-00-00.000Z",
            "agent:kiosk:telegram:direct:bo",
            False,
        ),
        (
            "twice.jsonl.reset.2026-01-03T00-00-00.000Z",
            "twice.reset.2026-01-03T00-00-00.000Z",
            "agent:kiosk:telegram:direct:bo",
            False,
        ),
        ("twice.jsonl", "twice", "agent:kiosk:telegram:direct:bo", True),
    ]
    by_id = {item.session_id: item for item in found}
    assert {item.agent_id for item in found} == {"kiosk"}
    assert all(item.size == (folder / item.name).stat().st_size for item in found)
    assert (by_id["live"].title, by_id["live"].kind) == ("Front \ufffd", SessionKind.DIRECT)
    assert (by_id["group"].title, by_id["group"].kind) == ("Rota", SessionKind.GROUP)
    assert by_id["group"].spawned_by == "agent:kiosk:main"
    assert (by_id["twice"].title, by_id["twice"].kind, by_id["twice"].spawned_by) == (None, SessionKind.GROUP, None)
    assert by_id["lost"].kind == SessionKind.OTHER
    assert by_id["live"].started_at == datetime(2026, 2, 1, 9, 0, tzinfo=UTC)
    assert not any(item.warnings for item in found)


def test_a_file_is_the_same_whether_named_alone_or_in_its_folder(folder: Path) -> None:
    reader = JsonlSessionReader()
    for item in files(folder):
        (alone,) = files(folder / item.name)
        assert (alone.session_id, alone.session_key, alone.current) == (item.session_id, item.session_key, item.current)
        assert list(reader.records(folder / item.name, alone)) == list(reader.records(folder, item))


def test_an_agent_may_be_given(write: Write) -> None:
    path = write(header("S1"), said("m1", None))
    assert files(path)[0].session_key == "agent:main:recovered:S1"
    (item,) = files(path, "work")
    assert (item.session_key, item.agent_id) == ("agent:work:recovered:S1", "work")
    write(b'{"agent:home:main": {"sessionId": "S1"}}', name="sessions.json")
    (item,) = files(path, "work")  # a key that names its agent keeps it
    assert (item.session_key, item.agent_id) == ("agent:home:main", "home")
    for agent_id in ("", "a:b", "a\nb", "x" * 300):
        with pytest.raises(InvalidRequest):
            files(path, agent_id)


def test_the_header_tells_where_a_session_came_from(write: Write) -> None:
    path = write(header("S1", cwd="/srv\x00", parentSession="/old.jsonl"), said("m1", None))
    assert files(path)[0].metadata == {"forked_from": "/old.jsonl", "cwd": "/srv\ufffd"}
    assert files(write(header("S1", cwd=5), said("m1", None)))[0].metadata == {}


@pytest.mark.parametrize(
    ("name", "session_id", "warned"),
    [
        ("S1.jsonl", "S1", False),
        ("S1-topic-42.jsonl", "S1", False),
        ("2026-02-01T09-00-00-000Z_S1.jsonl", "S1", False),
        ("S2.jsonl", "S1", True),
        ("2026-02-01T09-00-00-000Z_S2.jsonl", "S1", True),
        ("S2.jsonl.reset.2026-01-01T00-00-00.000Z", "S1", True),
    ],
)
def test_a_name_that_differs_from_the_header(write: Write, name: str, session_id: str, warned: bool) -> None:
    (item,) = files(write(header("S1"), said("m1", None), name=name))
    assert item.session_id == session_id
    assert ("'S1'" in "".join(item.warnings)) is warned


def test_a_registry_may_name_the_file(write: Write) -> None:
    path = write(header("S1"), said("m1", None), name="chat.jsonl")
    write(b'{"main": {"sessionId": "S1", "sessionFile": "C:\\\\x\\\\sessions\\\\chat.jsonl"}}', name="sessions.json")
    (item,) = files(path)
    assert (item.session_key, item.warnings) == ("agent:main:main", ())


@pytest.mark.parametrize(
    ("first", "name", "session_id"),
    [
        (b'{"type":"session","id":', "S7.jsonl", "S7"),
        (encoded(header("")), "S7.jsonl", "S7"),
        (encoded(header("a\nb")), "2026-02-01T09-00-00-000Z_S7.jsonl", "S7"),
        (encoded(header("x" * 300)), "S7.jsonl.reset.2026", "S7"),
        (encoded(said("m0", None)), "S7.jsonl", "S7"),
    ],
)
def test_without_a_usable_header_the_name_counts(write: Write, first: bytes, name: str, session_id: str) -> None:
    (item,) = files(write(first, said("m1", None), name=name))
    assert item.session_id == session_id
    assert "taken from its name" in item.warnings[0]


def test_a_name_that_cannot_be_an_id_gets_a_stand_in(write: Write) -> None:
    (one,) = files(write(said("m1", None), name="a\nb.jsonl"))
    (other,) = files(write(said("m1", None), name="a\tb.jsonl"))
    assert one.session_id.startswith("file-")
    assert one.session_id != other.session_id


@pytest.mark.parametrize("broken", [b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b"", b"null"])
def test_a_broken_registry_is_a_warning(write: Write, broken: bytes) -> None:
    path = write(header("S1"), said("m1", None))
    write(header("S2"), said("m1", None), name="S2.jsonl")
    (path.parent / "sessions.json").write_bytes(broken)
    found = files(path.parent)
    assert [item.session_key for item in found] == ["agent:main:recovered:S1", "agent:main:recovered:S2"]
    assert ["sessions.json" in "".join(item.warnings) for item in found] == [True, False]  # once is enough


def test_broken_entries_of_a_registry_are_left_out(write: Write) -> None:
    path = write(header("S1"), said("m1", None))
    registry = {
        "agent:main:main": {"sessionId": "S1", "chatType": 4, "displayName": [], "updatedAt": "x", "spawnedBy": "\n"},
        "agent:main:b": {"sessionId": "S1"},
        "agent:main:c": {"sessionId": ""},
        "agent:main:d": 4,
        "bad\nkey": {"sessionId": "S2"},
    }
    (path.parent / "sessions.json").write_bytes(encoded(registry))
    (item,) = files(path)
    assert (item.session_key, item.kind, item.title, item.spawned_by) == (
        "agent:main:main",
        SessionKind.MAIN,
        None,
        None,
    )
    assert len(item.warnings) == 4


def test_of_two_entries_for_one_key_the_newer_is_current(write: Write) -> None:
    path = write(header("S1"), said("m1", None))
    write(header("S2"), said("m1", None), name="S2.jsonl")
    registry = {
        "main": {"sessionId": "S1", "usageFamilySessionIds": ["S2", "S1"], "updatedAt": 2},
        "agent:main:main": {"sessionId": "S2", "updatedAt": 1},
    }
    (path.parent / "sessions.json").write_bytes(encoded(registry))
    assert [(item.session_id, item.session_key, item.current) for item in files(path.parent)] == [
        ("S2", "agent:main:main", False),
        ("S1", "agent:main:main", True),
    ]


def test_an_archive_of_a_current_transcript_that_is_not_here(write: Write) -> None:
    path = write(header("S1"), said("m1", None), name="S1.jsonl.reset.2026")
    write(b'{"agent:main:main": {"sessionId": "S1"}}', name="sessions.json")
    (item,) = files(path)
    assert (item.session_id, item.session_key, item.current) == ("S1.reset.2026", "agent:main:main", False)


def test_in_a_folder_with_a_registry_a_damaged_file_is_not_passed_over(write: Write) -> None:
    path = write(b"\x00" * 100_000, said("m1", None))
    assert not JsonlSessionReader().recognises(path.parent)
    write(b"{}", name="sessions.json")
    (item,) = files(path.parent)
    found = [line.record for line in JsonlSessionReader().records(path.parent, item)]
    assert list(bad_lines(found)) == [1]
    assert parents(found) == {"m1": None}


def test_what_a_folder_does_not_show_is_a_warning(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(header("S1"), said("m1", None))
    write(b"\x28\xb5\x2f\xfd", name="S0.jsonl.reset.2026.zst")
    closed = write(header("S2"), name="S2.jsonl")
    looked_at = discovery._looked_at

    def refusing(path: Path, name: str, *, trusted: bool) -> discovery.Found | None:
        if path == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return looked_at(path, name, trusted=trusted)

    monkeypatch.setattr(discovery, "_looked_at", refusing)
    (item,) = files(path.parent)
    assert "compressed" in item.warnings[0]
    assert "S2.jsonl cannot be read: Permission denied" in item.warnings[1]
    with pytest.raises(ImportFailed, match="Permission denied"):
        files(closed)


@pytest.mark.parametrize("name", ["missing", "nul\0", "empty", "text.jsonl", "other.jsonl"])
def test_paths_that_hold_nothing(tmp_path: Path, write: Write, name: str) -> None:
    (tmp_path / "empty").mkdir()
    write(b"hello", name="text.jsonl")
    write({"type": "user", "message": {"role": "user", "content": "of another program"}}, name="other.jsonl")
    for reader in readers():
        assert not reader.recognises(tmp_path / name)
        with pytest.raises(ImportFailed):
            reader.files(tmp_path / name, None)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_a_name_that_is_no_text(write: Write) -> None:
    path = write(header("S1"), said("m1", None), name="S1\udcff.jsonl")
    write(header("S2"), said("m1", None), name="S2.jsonl")
    (item,) = files(path.parent)
    assert item.name == "S2.jsonl"
    assert item.warnings == (f"{path.parent}/S1\ufffd.jsonl has a name that is no text and was not read",)
    (item,) = files(path)
    assert item.name == "S1\ufffd.jsonl"
    assert len(list(JsonlSessionReader().records(path, item))) == 1


def test_a_file_that_went_away(write: Write) -> None:
    path = write(header("S1"), said("m1", None))
    (item,) = files(path)
    path.unlink()
    with pytest.raises(ImportFailed, match="cannot be read"):
        list(JsonlSessionReader().records(path, item))


def test_the_reader_is_chosen_by_names(write: Write) -> None:
    def chosen(path: Path) -> str:
        return next(reader.format for reader in readers() if reader.recognises(path))

    of_pi = write(header("S1"), said("m1", None), name="--srv--/2026-02-01T09-00-00-000Z_S1.jsonl")
    assert chosen(of_pi) == chosen(of_pi.parent) == "pi"
    assert next(PiSessionReader().files(of_pi.parents[1], None)).session_key == "agent:main:pi:S1"
    plain = write(header("S2"), said("m1", None), name="S2.jsonl")
    assert chosen(plain) == chosen(plain.parent) == "openclaw"
    assert [item.session_key for item in files(plain.parent)] == ["agent:main:pi:S1", "agent:main:recovered:S2"]


def test_readers_fulfil_the_port() -> None:
    found: tuple[TranscriptReader, ...] = readers()
    assert [reader.format for reader in found] == ["pi", "openclaw"]


# Whatever is in the file


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch") / "S1.jsonl"


def from_bytes(path: Path, data: bytes) -> list[ReadLine]:
    path.write_bytes(data)
    file = TranscriptFile(name=path.name, size=len(data), session_id="S1", session_key="agent:main:x", agent_id="main")
    return list(JsonlSessionReader(longest_line=300).records(path, file))


@given(
    data=st.binary(max_size=400)
    | st.lists(st.sampled_from([b"\n", b"{", b"}", b'"', b"[1]", b"\xff", b"\0"])).map(b"".join)
)
def test_bytes_never_raise(scratch: Path, data: bytes) -> None:
    found = from_bytes(scratch, data)
    if found:
        assert found[-1].bytes_done == len(data)
    assert bool(found) == any(line.strip() for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"))
    assert not any(isinstance(line.record, MessageRecord) for line in found)


_IDS = st.sampled_from(["a", "b", "c", "d", "e", "r", SURROGATE, "", None, 3])
_ODD = st.sampled_from(
    [None, True, 7, -1.5, 1e300, "", "x", SURROGATE, "\0", "2026-02-01", [], [[]], {}, {"a": [SURROGATE]}]
)
_BLOCK = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "thinking", "toolCall", "image", "odd"]), "text": _ODD, "thinking": _ODD},
    optional=dict.fromkeys(("id", "name", "arguments", "data", "mimeType"), _ODD),
)
_MESSAGE = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "toolResult", "system", "custom", "bashExecution"]),
        "content": st.just("text") | st.lists(_BLOCK, max_size=2) | _ODD,
    },
    optional=dict.fromkeys(("timestamp", "toolCallId", "command", "output"), _ODD),
)
_LINKS = {"id": _IDS, "parentId": _IDS}
_RECORD = st.one_of(
    st.fixed_dictionaries({"type": st.just("message"), "message": _MESSAGE, **_LINKS}, optional={"timestamp": _ODD}),
    st.fixed_dictionaries(
        {"type": st.just("message"), "message": st.just({"role": "user", "content": "text"}), **_LINKS},
        optional={"appendMode": st.sampled_from(["side", "other"])},
    ),
    st.fixed_dictionaries({"type": st.just("reset"), "firstKeptEntryId": _IDS, "reason": _ODD, **_LINKS}),
    st.fixed_dictionaries({"type": st.just("leaf"), "targetId": _IDS, **_LINKS}, optional={"appendParentId": _IDS}),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["label", "session_info", "odd", "branch_summary", "session"]), **_LINKS},
        optional={"name": _ODD, "appendMode": st.just("side")},
    ),
)


def strings_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from strings_in(item)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from strings_in(getattr(value, name))


@settings(max_examples=150, deadline=None)
@given(lines=st.lists(_RECORD, max_size=12))
def test_records_hold_together(scratch: Path, lines: list[dict[str, object]]) -> None:
    data = b"\n".join(json.dumps(line).encode() for line in lines)
    scratch.write_bytes(data)
    file = TranscriptFile(name="S1.jsonl", size=0, session_id="S1", session_key="agent:main:x", agent_id="main")
    found = list(JsonlSessionReader().records(scratch, file))
    known: set[str | None] = {None}
    head: str | None = None
    for line in found:
        record = line.record
        if isinstance(record, MessageRecord):
            assert record.message_id not in known
            assert record.parent_id in known
            assert record.parts
            assert record.created_at is None or record.created_at.tzinfo is UTC
            known.add(record.message_id)
            head = record.message_id
        elif isinstance(record, HeadRecord):
            assert record.message_id in known
            head = record.message_id
        elif isinstance(record, ResetRecord):
            assert record.after == head
            assert record.first_kept in known
        for text in strings_in(record):
            assert "\0" not in text
            text.encode()
    if found:
        assert found[-1].bytes_done == len(data)


# Files written by the programs themselves


def shared_turns() -> list[dict[str, object]]:
    expected = SHARED / "pi" / "expected.json"
    return json.loads(expected.read_text()) if expected.is_file() else []


def turns_texts(turns: Iterable[dict[str, object]]) -> list[str]:
    return [text for turn in turns for text in [turn["user"], *turn["assistant"]]]


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data is not here")
@pytest.mark.parametrize("expected", shared_turns(), ids=lambda expected: str(expected["what"])[:20])
def test_transcripts_of_pi(expected: dict[str, object]) -> None:
    found = records(SHARED / str(expected["file"]), PiSessionReader())
    path = active_path(found)
    assert [
        text_of(record.parts) for record in path if record.role in (Role.USER, Role.ASSISTANT) and text_of(record.parts)
    ] == (turns_texts(expected["turns"]))
    turns = [turn for branch in [expected["turns"], *expected.get("inactive_branches", [])] for turn in branch]
    assert not bad_lines(found)
    parts = [part for record in messages(found) for part in record.parts]
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    assert sorted(texts) == sorted([*turns_texts(turns)])
    calls = [part.arguments for part in parts if isinstance(part, ToolCallPart)]
    commands = [command for turn in turns for command in turn["tool_commands"]]
    assert len(calls) == len(commands)
    for command, call in zip(commands, calls, strict=True):
        assert any(str(value).endswith(command) for value in json.loads(call).values())
    assert [part.text for part in parts if isinstance(part, ReasoningPart)] == [
        thought for turn in turns for thought in turn["thinking"]
    ]
    results = [part for part in parts if isinstance(part, ToolResultPart)]
    assert [part.call_id for part in results] == [part.call_id for part in parts if isinstance(part, ToolCallPart)]


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data is not here")
def test_files_of_pi() -> None:
    found = list(PiSessionReader().files(SHARED / "pi", None))
    assert len(found) == 6
    assert all(item.session_key == f"agent:main:pi:{item.session_id}" and item.current for item in found)
    assert not any(item.warnings for item in found)
    assert sum("forked_from" in item.metadata for item in found) == 1


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data is not here")
def test_older_files_of_openclaw() -> None:
    path = SHARED / "openclaw" / "legacy-source"
    found = files(path)
    assert [(item.session_id[:8], item.session_key, item.kind, item.title) for item in found] == [
        ("11111111", "agent:main:main", "direct", None),
        ("22222222", "agent:main:discord:channel:4711", "group", "#orchard"),
        ("33333333", "agent:main:legacy-three", "direct", "Legacy three"),
        ("44444444", "agent:main:recovered:44444444-dddd-4000-8000-000000000004", "other", None),
        ("55555555", "agent:main:legacy-five", "direct", None),
        ("66666666", "agent:main:recovered:66666666-ffff-4000-8000-000000000006", "other", None),
    ]
    assert all(item.current and not item.warnings for item in found)
    reader = JsonlSessionReader()
    by_id = {item.session_id[:1]: [line.record for line in reader.records(path, item)] for item in found}
    assert [len(messages(by_id[key])) for key in "123456"] == [12, 12, 8, 2, 2, 2]
    assert not any(bad_lines(lines) for lines in by_id.values())
    tree = [text_of(record.parts) for record in active_path(by_id["2"])]
    assert "Right path taken: it leads to the cider press." in tree
    assert "Left path taken: it leads to the beehives." not in tree


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data is not here")
@pytest.mark.parametrize("other", ["codex", "claude-code", "hermes", "llm"])
def test_transcripts_of_other_programs_are_not_taken_for_ours(other: str) -> None:
    assert not any(reader.recognises(SHARED / other) for reader in readers())


# The samples


def test_the_samples() -> None:
    reader = next(reader for reader in readers() if reader.recognises(EXAMPLES))
    found = list(reader.files(EXAMPLES, None))
    assert len(found) == 6
    assert not any(item.warnings for item in found)
    assert [item.session_id[:4] for item in found if not item.current] == ["5e1f"]
    everything = {item.session_id[:4]: [line.record for line in reader.records(EXAMPLES, item)] for item in found}
    said_in_all = [record for lines in everything.values() for record in messages(lines)]
    assert 60 <= len(said_in_all) <= 100
    assert not any(bad_lines(lines) for lines in everything.values())
    kinds = {type(part) for record in said_in_all for part in record.parts}
    assert {TextPart, ReasoningPart, ToolCallPart, ToolResultPart} <= kinds
    assert any(isinstance(record, ResetRecord) for record in everything["8c2d"])
    assert "compaction" in skipped(everything["f27a"])
    release = everything["1d90"]
    assert len(active_path(release)) < len(messages(release))
    assert "Plan B" in text_of(active_path(release)[3].parts)
    assert {item.spawned_by for item in found} == {None, "agent:main:main"}
