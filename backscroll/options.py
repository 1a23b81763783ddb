"""The arguments and options of the commands, and what their text means."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from backscroll.domain.errors import InvalidRequest
from backscroll.domain.visibility import Requester

Text = str | None
Texts = list[str] | None

Database = Annotated[
    Text,
    typer.Option(
        metavar="URL",
        help="The store. Left out: BACKSCROLL_DATABASE_URL, else sqlite:///backscroll.db in the current folder.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Answer with one JSON document.")]
As = Annotated[
    Text,
    typer.Option("--as", metavar="KEY", help="Read on behalf of this session; else as the operator, who sees all."),
]
Limit = Annotated[int | None, typer.Option(metavar="N", help="At most so many.", show_default=False)]
Offset = Annotated[int, typer.Option(metavar="N", help="Leave out the newest N.")]

Source = Annotated[Path, typer.Argument(metavar="PATH", help="A transcript, or a folder of them.", show_default=False)]
Format = Annotated[str, typer.Option("--format", metavar="auto|openclaw|pi", help="Which program wrote it.")]
Owner = Annotated[Text, typer.Option("--agent", metavar="ID", help="The agent of sessions whose files name none.")]

Words = Annotated[
    list[str],
    typer.Argument(metavar="WORDS", help='All must occur; a run in "double quotes" is a phrase.', show_default=False),
]
InSession = Annotated[Text, typer.Option("--session", metavar="KEY", help="In this session alone.")]
Agents = Annotated[
    Texts, typer.Option("--agent", metavar="ID", help="In the sessions of this agent alone; may be repeated.")
]
Roles = Annotated[
    Texts, typer.Option("--role", metavar="user|assistant", help="Said by this role alone; may be repeated.")
]
Since = Annotated[
    Text,
    typer.Option(
        metavar="TIME",
        help="Not before this: 2026-01-31 (midnight UTC) or 2026-01-31T14:30+01:00; UTC where no zone is given.",
    ),
]
Until = Annotated[Text, typer.Option(metavar="TIME", help="Before this; in the same forms.")]
Match = Annotated[
    str, typer.Option(metavar="all|any|prefix", help="All words; any; or all, the last one as a beginning.")
]
Order = Annotated[str, typer.Option(metavar="relevance|newest", help="Which hits come first.")]

Key = Annotated[str, typer.Argument(metavar="KEY", help="The session's key.", show_default=False)]
SessionId = Annotated[Text, typer.Option(metavar="ID", help="One of its transcripts; else the current one.")]
MessageId = Annotated[Text, typer.Option(metavar="ID", help="Show what was said around this message.")]
Before = Annotated[Text, typer.Option(metavar="ID", help="Show what was said before this message.")]
Tools = Annotated[bool, typer.Option("--tools", help="Show tool messages, arguments and reasoning too.")]

Repair = Annotated[bool, typer.Option("--repair", help="Make them agree first; no message is touched.")]
Check = Annotated[bool, typer.Option("--check", help="Change nothing; only say whether it is needed.")]

Vacuum = Annotated[
    bool, typer.Option("--vacuum", help="Write the file anew: it shrinks, and deleted text leaves it. Writers wait.")
]
Days = Annotated[float, typer.Option(metavar="DAYS", help="Not written to for so many days.", show_default=False)]
Keep = Annotated[int, typer.Option(metavar="N", help="Each agent keeps its N newest sessions, whatever their age.")]
Delete = Annotated[bool, typer.Option("--delete", help="Delete them; else they are only listed.")]


def age_of(days: float) -> timedelta:
    """The time that `--older-than` means; raises `InvalidRequest` for one that is none."""
    try:
        return timedelta(days=days)
    except (OverflowError, ValueError) as error:
        raise InvalidRequest(f"--older-than must be a number of days, not {days}") from error


def requester_of(key: str | None) -> Requester:
    """On whose behalf `--as` reads; raises `InvalidRequest` for what can be no key."""
    return Requester.operator() if key is None else Requester(key)


def time_of(text: str | None, option: str) -> datetime | None:
    """The time that `--since` or `--until` names, in UTC where it names no zone; raises `InvalidRequest`."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidRequest(
            f"{option} must be a date such as 2026-01-31 or an ISO time such as 2026-01-31T14:30Z, not {text!r}"
        ) from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)
