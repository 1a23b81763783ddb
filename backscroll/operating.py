"""The commands of whoever keeps a store: its index, its schema, its size."""

from typing import TYPE_CHECKING

import typer

from backscroll import options as opt
from backscroll.domain.errors import SchemaOutdated, StoreUnavailable
from backscroll.domain.results import to_json
from backscroll.domain.visibility import Requester
from backscroll.running import NEGATIVE, opened
from backscroll.terminal import NextCommand, complain, note, progress, show, write_json

if TYPE_CHECKING:
    from backscroll.bootstrap import Backscroll


def reindex(context: typer.Context, as_json: opt.Json = False) -> None:
    """Bring every transcript that waits for its index up to date."""
    from backscroll.rendering import reindex_lines

    with opened(context.obj) as scroll, progress("Reindexing") as tell:
        report = scroll.reindex(progress=tell)
    if as_json:
        write_json(to_json(report))
    else:
        show(reindex_lines(report))
    if report.failed:
        raise typer.Exit(NEGATIVE)


def verify(context: typer.Context, repair: opt.Repair = False, as_json: opt.Json = False) -> None:
    """Compare index and transcripts."""
    from backscroll.rendering import verify_lines

    with opened(context.obj) as scroll, progress("Verifying") as tell:
        report = scroll.repair(progress=tell) if repair else scroll.verify(progress=tell)
    if as_json:
        write_json(to_json(report))
    else:
        show(verify_lines(report))
        if not report.ok and not repair:
            note(f"to make them agree: {NextCommand(context.obj)('verify', repair='')}")
    if not report.ok:
        raise typer.Exit(NEGATIVE)


def migrate(context: typer.Context, check: opt.Check = False, as_json: opt.Json = False) -> None:
    """Make the store, or bring its schema up to this release."""
    current, changed = True, False
    try:
        with opened(context.obj) as scroll:
            _look_into_every_file(scroll)
    except SchemaOutdated as error:
        current = False
        if check:
            complain(str(error))
    except StoreUnavailable:
        # Perhaps there is none yet; what else is the matter will be met again.
        if check:
            raise
        current = False
    if not current and not check:
        with opened(context.obj, make=True) as scroll:
            _look_into_every_file(scroll)
            current = changed = True
    if as_json:
        write_json({"current": current, "changed": changed})
    elif current:
        typer.echo(f"the schema {'was brought' if changed else 'is'} up to date")
    if not current:
        raise typer.Exit(NEGATIVE)


def _look_into_every_file(scroll: "Backscroll") -> None:
    """Where each agent has a file, the schema of each is seen to when it is first opened."""
    scroll.sessions(requester=Requester.operator(), limit=1)


def maintain(context: typer.Context, vacuum: opt.Vacuum = False, as_json: opt.Json = False) -> None:
    """Merge the index and empty the log; for quiet hours."""
    with opened(context.obj) as scroll:
        report = scroll.maintain(vacuum=vacuum)
    if as_json:
        write_json(to_json(report))
    else:
        gained = report.bytes_before - report.bytes_after
        typer.echo(f"{report.bytes_after:,} bytes on disk, {gained:,} fewer than before")


def prune(
    context: typer.Context,
    older_than: opt.Days,
    keep: opt.Keep = 0,
    delete: opt.Delete = False,
    as_json: opt.Json = False,
) -> None:
    """List the sessions that nobody has written to for long, and delete them if asked."""
    from backscroll.rendering import prune_lines

    with opened(context.obj) as scroll:
        report = scroll.prune(older_than=opt.age_of(older_than), keep=keep, dry_run=not delete)
    if as_json:
        write_json(to_json(report))
    else:
        show(prune_lines(report))
        if report.session_keys and not delete:
            again = NextCommand(context.obj)("prune", older_than=f"{older_than:g}", keep=keep, delete="")
            note(f"nothing was deleted; to delete them: {again}")
