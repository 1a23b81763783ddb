"""The command line: `backscroll [--database URL] COMMAND`.

Answers go to stdout (`--json`: one JSON document); notes, progress and errors to stderr. What only a command that runs
needs is imported when one runs.
"""

import sys
from typing import Annotated

import typer

from backscroll import options as opt
from backscroll.domain.results import to_json
from backscroll.operating import maintain, migrate, prune, reindex, verify
from backscroll.running import EXIT_CODES, NEGATIVE, Commands, opened, try_import
from backscroll.terminal import NextCommand, note, progress, show, write_json

app = typer.Typer(
    cls=Commands,
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def run() -> None:
    """The entry point of the `backscroll` script."""
    for stream in (sys.stdout, sys.stderr):
        # A transcript may hold any character; a locale that cannot write one is no reason to stop.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="backscroll")


def _print_version(wanted: bool) -> None:
    if not wanted:
        return
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version("backscroll")
    except PackageNotFoundError:
        found = "(not installed)"
    typer.echo(f"backscroll {found}")
    raise typer.Exit


@app.callback()
def main(
    context: typer.Context,
    database: opt.Database = None,
    version: Annotated[  # noqa: ARG001 - its callback answers
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Keeps agent and chat transcripts, finds what was said by the exact words, and reopens it."""
    context.obj = database


@app.command("import")
def import_(
    context: typer.Context,
    path: opt.Source,
    format_: opt.Format = "auto",
    agent: opt.Owner = None,
    as_json: opt.Json = False,
) -> None:
    """Take over transcripts; importing again adds only what is new."""
    from backscroll.rendering import import_lines

    try_import(context.obj, path, format_, agent)
    with opened(context.obj, make=True) as scroll, progress("Importing") as tell:
        report = scroll.import_transcripts(path, format=format_, agent_id=agent, progress=tell)
    if as_json:
        write_json(to_json(report))
    else:
        show(import_lines(report, NextCommand(context.obj)))


@app.command()
def search(
    context: typer.Context,
    words: opt.Words,
    session: opt.InSession = None,
    agent: opt.Agents = None,
    role: opt.Roles = None,
    since: opt.Since = None,
    until: opt.Until = None,
    match: opt.Match = "all",
    order: opt.Order = "relevance",
    limit: opt.Limit = None,
    as_key: opt.As = None,
    as_json: opt.Json = False,
) -> None:
    """Find messages by their exact words, case and accents aside."""
    from backscroll.rendering import search_lines

    requester, start, end = opt.requester_of(as_key), opt.time_of(since, "--since"), opt.time_of(until, "--until")
    with opened(context.obj) as scroll:
        page = scroll.search(
            " ".join(words),
            requester=requester,
            session_key=session,
            agents=agent or None,
            roles=role or None,
            since=start,
            until=end,
            match=match,
            order=order,
            limit=limit,
        )
    if as_json:
        write_json(to_json(page))
    else:
        show(search_lines(page, NextCommand(context.obj, as_key)))
        if not page.hits:
            note("nothing found")
        if page.truncated:
            note("more messages match: narrow the search, or raise --limit")
        if page.indexing:
            now = NextCommand(context.obj)("reindex")
            note(f"some transcripts are still being indexed, so more may match soon; to index them now: {now}")
    if not page.hits:
        raise typer.Exit(NEGATIVE)


@app.command("open")
def open_(
    context: typer.Context,
    key: opt.Key,
    session_id: opt.SessionId = None,
    message_id: opt.MessageId = None,
    limit: opt.Limit = None,
    offset: opt.Offset = 0,
    before: opt.Before = None,
    tools: opt.Tools = False,
    as_key: opt.As = None,
    as_json: opt.Json = False,
) -> None:
    """Read a session: its newest messages, those around one, or those before one."""
    from backscroll.rendering import history_lines

    requester = opt.requester_of(as_key)
    with opened(context.obj) as scroll:
        page = scroll.history(
            key,
            requester=requester,
            session_id=session_id,
            message_id=message_id,
            limit=limit,
            offset=offset,
            before=before,
            include_tools=tools,
        )
    if as_json:
        write_json(to_json(page))
    elif page.messages:
        command = NextCommand(context.obj, as_key)
        show(history_lines(page, command, anchor=message_id, limit=limit, tools=tools))
        if page.truncated:
            note("the answer was cut to its bounds: messages marked [cut] are longer, and some may be left out")
        if page.redacted:
            note("secrets are masked")
    elif message_id is None:
        note("no messages to show")
    else:
        note("no messages to show: there is no such message on the active branch")
    if not page.messages:
        raise typer.Exit(NEGATIVE)


@app.command()
def sessions(
    context: typer.Context,
    limit: opt.Limit = None,
    offset: opt.Offset = 0,
    as_key: opt.As = None,
    as_json: opt.Json = False,
) -> None:
    """List the sessions, the last written to first."""
    from backscroll.rendering import session_lines

    requester = opt.requester_of(as_key)
    with opened(context.obj) as scroll:
        found = scroll.sessions(requester=requester, limit=limit, offset=offset)
        following = offset + len(found)
        more = bool(found and not as_json and scroll.sessions(requester=requester, limit=1, offset=following))
    if as_json:
        write_json(to_json(found))
        return
    command = NextCommand(context.obj, as_key)
    show(session_lines(found, command))
    if not found:
        note("no sessions to show")
    if more:
        note(f"more sessions: {command('sessions', limit=limit, offset=following)}")


for command in (reindex, verify, migrate, maintain, prune):
    app.command()(command)
