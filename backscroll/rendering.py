"""Answers as a person reads them, line by line; each takes the writer of the commands to run next."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from rich.text import Text

from backscroll.domain.model import Role
from backscroll.domain.parts import AttachmentPart, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from backscroll.domain.results import (
    HistoryMessage,
    HistoryPage,
    Hit,
    ImportProblem,
    ImportReport,
    IndexReport,
    PruneReport,
    ReindexReport,
    SearchPage,
    SessionSummary,
)
from backscroll.terminal import Line, NextCommand, one_line, plain

_ROLES = {Role.USER: "bold magenta", Role.ASSISTANT: "bold green", Role.SYSTEM: "bold yellow", Role.TOOL: "bold blue"}
_MATCH = "bold black on yellow"
_COMMAND = "cyan"
_PROBLEMS = 20
_INDENT = 4


def search_lines(page: SearchPage, command: NextCommand) -> Iterator[Line]:
    """The hits, each with the command that opens it."""
    for hit in page.hits:
        yield Line(_spoken(hit.timestamp, hit.role, (one_line(hit.session_key), "bold")))
        yield Line(_excerpt(hit), _INDENT)
        opening = command("open", hit.session_key, session_id=hit.session_id, message_id=hit.message_id)
        yield Line(Text(opening, _COMMAND), _INDENT, whole=True)
        yield Line(Text())


def history_lines(
    page: HistoryPage, command: NextCommand, *, anchor: str | None, limit: int | None, tools: bool
) -> Iterator[Line]:
    """The messages, the one asked for marked, and how to page on to older ones."""
    yield Line(Text.assemble((one_line(page.session_key), "bold"), f"  {len(page.messages)} of {page.total} messages"))
    yield Line(Text(f"session id {one_line(page.session_id)}", "dim"))
    for message in page.messages:
        yield Line(Text())
        marked = message.message_id == anchor
        head = _spoken(message.timestamp, message.role, (one_line(message.message_id), "dim"))
        yield Line(Text.assemble(("> ", "bold red"), head, ("  <- this one", "bold red")) if marked else head)
        yield from _said(message, tools=tools)
    if page.has_more and page.messages:
        older = command(
            "open",
            page.session_key,
            session_id=page.session_id,
            before=page.messages[0].message_id,
            limit=limit,
            tools="" if tools else None,
        )
        yield Line(Text())
        yield Line(Text.assemble("older: ", (older, _COMMAND)), whole=True)


def session_lines(sessions: Sequence[SessionSummary], command: NextCommand) -> Iterator[Line]:
    """One line for each session, and how to open one."""
    widest = max((len(one.session_key) for one in sessions), default=0)
    for one in sessions:
        yield Line(
            Text.assemble(
                (_minute(one.updated_at), "dim"),
                f"  {one.kind:<8}  ",
                (one_line(one.session_key), "bold"),
                " " * (widest - len(one.session_key)) + "  " if one.title else "",
                one_line(one.title or ""),
            ),
            whole=True,
        )
    if sessions:
        yield Line(Text())
        yield Line(Text.assemble("open one: ", (command("open", sessions[0].session_key), _COMMAND)), whole=True)


def import_lines(report: ImportReport, command: NextCommand) -> Iterator[Line]:
    """What was imported, what was not, and what to try now."""
    yield Line(
        Text(
            f"{_count(report.files, 'file')}, {_count(report.sessions, 'transcript')}: "
            f"{_count(report.messages, 'new message')}, {report.known} known already"
        )
    )
    yield Line(
        Text(f"{_count(report.skipped, 'record')} skipped that are no messages, {_count(report.bad, 'bad line')}")
    )
    for problem in report.problems[:_PROBLEMS]:
        yield Line(_problem(problem), _INDENT)
    if (more := max(len(report.problems), report.bad) - _PROBLEMS) > 0:
        yield Line(Text(f"and {more} more (all that are kept: --json)"), _INDENT)
    if report.sessions:
        yield Line(Text.assemble("now try: ", (f"{command('search')} WORDS", _COMMAND)), whole=True)


def reindex_lines(report: ReindexReport) -> Iterator[Line]:
    """What was brought up to date."""
    done = _count(report.transcripts, "transcript")
    yield Line(
        Text(f"{done} brought up to date: {report.added} messages put into the index, {report.removed} taken out")
    )
    for session_id, why in report.failed:
        yield Line(Text.assemble(("failed: ", "red"), f"session id {one_line(session_id)}: {one_line(why)}"), _INDENT)


def verify_lines(report: IndexReport) -> Iterator[Line]:
    """Whether index and transcripts agree, and where not."""
    verdict = Text("index and transcripts agree" if report.ok else "index and transcripts disagree")
    verdict.stylize("green" if report.ok else "bold red")
    waiting = f", {_count(report.pending, 'transcript')} waiting for the index" if report.pending else ""
    yield Line(verdict + f": {_count(report.messages, 'message')}, {report.indexed} in the index{waiting}")
    for problem in report.problems:
        where = "" if problem.session_key is None else f"  {one_line(problem.session_key)}"
        yield Line(Text(f"{problem.rows} x {one_line(problem.what)}{where}"), _INDENT)


def prune_lines(report: PruneReport) -> Iterator[Line]:
    """The sessions that were deleted, or would be."""
    done = "deleted" if report.deleted else "may go"
    yield Line(Text(f"{_count(len(report.session_keys), 'session')} {done}"))
    for key in report.session_keys:
        yield Line(Text(one_line(key)), _INDENT, whole=True)


def _spoken(time: datetime, role: Role, name: tuple[str, str]) -> Text:
    return Text.assemble((_minute(time), "dim"), "  ", (role.value, _ROLES[role]), "  ", name)


def _excerpt(hit: Hit) -> Text:
    text = Text(one_line(hit.excerpt))
    for start, end in hit.highlights:
        text.stylize(_MATCH, start, end)
    return text


def _said(message: HistoryMessage, *, tools: bool) -> Iterator[Line]:
    for part in message.parts or (TextPart(message.text),):
        text = _part(part, tools=tools)
        if text is not None:
            yield Line(text, _INDENT)
    if message.truncated:
        yield Line(Text("[cut]", "yellow"), _INDENT)


def _part(part: Part, *, tools: bool) -> Text | None:
    """A part to be read; of what the model thought and of its tools only the calls' names unless `tools` is set."""
    match part:
        case TextPart():
            return Text(plain(part.text.replace("\r\n", "\n")))
        case ReasoningPart():
            return _aside("reasoning", part.text) if tools else None
        case ToolCallPart():
            return _aside(f"calls {part.name}", part.arguments if tools else "")
        case ToolResultPart():
            return _aside(f"{part.name or 'tool'} {'fails' if part.is_error else 'answers'}", part.text)
        case AttachmentPart():
            shown = "" if part.uri is None or part.uri.startswith("data:") else part.uri
            return _aside(" ".join(filter(None, (part.media_type, part.name))), shown)


def _aside(label: str, text: str) -> Text:
    return Text(f"[{one_line(label)}] {plain(text)}".rstrip(), "dim")


def _problem(problem: ImportProblem) -> Text:
    if problem.line is None:
        return Text(one_line(problem.what))
    return Text(f"{one_line(problem.file)}, line {problem.line}: {one_line(problem.what)}")


def _minute(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="minutes").replace("+00:00", "Z")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
