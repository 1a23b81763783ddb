"""The FTS5 index: the statements that write, remove, check and ask it.

It has external content: the view shows the messages marked as indexed, so that FTS5's own `rebuild` and strict
integrity check are always right, and text is stored once. Removing a row needs the very text that was indexed, which
is why whoever changes an indexed message removes its row first. The column `scope` holds a token for the session and
one for the agent, weighted zero, so that FTS5 can intersect a narrow scope itself.

The migrations create it (see revisions 0002 and 0005).

Source: https://sqlite.org/fts5.html, "External Content Tables" and "Special INSERT Directives".
"""

import re
from collections.abc import Iterable, Sequence
from itertools import cycle

import sqlalchemy as sa
from sqlalchemy import exc

from backscroll.domain.query import Match, Query
from backscroll.infrastructure.statements import DATABASE_ERRORS, Statements

INDEX = "backscroll_message_index"
VIEW = "backscroll_indexed_messages"
SIZES = INDEX + "_docsize"
"""FTS5's own table of the lengths of the rows."""
BM25 = f"bm25({INDEX}, 1.0, 0.0)"
"""How FTS5 ranks a row that matches, lower is better; the scope tokens do not count."""

# As revision 0002 has it; marks count as letters, since in the Indic scripts they are the vowels.
CREATE = f"""CREATE VIRTUAL TABLE {INDEX} USING fts5(
    body, scope, content='{VIEW}', content_rowid='id',
    tokenize="unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc Me'")"""
CONFIGURE = (
    f"INSERT INTO {INDEX}({INDEX}, rank) VALUES ('rank', 'bm25(1.0, 0.0)')",
    f"INSERT INTO {INDEX}({INDEX}, rank) VALUES ('automerge', 0)",
    f"INSERT INTO {INDEX}({INDEX}, rank) VALUES ('usermerge', 4)",
)
_INSERT = f"INSERT INTO {INDEX}(rowid, body, scope) VALUES (?, ?, ?)"
_DELETE = f"INSERT INTO {INDEX}({INDEX}, rowid, body, scope) VALUES ('delete', ?, ?, ?)"

TERMS = INDEX + "_terms"
"""FTS5's view of its own terms, which holds nothing itself."""
CREATE_TERMS = f"CREATE VIRTUAL TABLE {TERMS} USING fts5vocab({INDEX}, instance)"

_SPARE = INDEX + "_spare"
_MERGE_PAGES = 200
"""Pages that one step of a merge writes: some milliseconds of the write lock."""
# FTS5 merges by itself in bursts of hundreds of pages, a stall for whoever writes just then. So that is off
# (automerge), and in each process every fourth addition merges some pages, several for each page's worth of rows. Four
# pieces at a time (usermerge): of more, each page is written less often, but each token of a scope is looked up in
# more pieces, which take more room.
_TURNS = cycle((True, False, False, False))
_MERGED_A_ROW, _MERGED_A_ROW_OF_MANY = 16, 2
_MERGE = f"INSERT INTO {INDEX}({INDEX}, rank) VALUES ('merge', ?)"

IndexRow = tuple[int, str, str]
"""Row id, body and scope tokens, as the index holds them."""
_SCOPE_TOKEN = re.compile("[as][0-9]*")
"""What a scope token or the beginning of one looks like, which a word of a query may do too."""


def scope_tokens(session_pk: int, agent_pk: int) -> str:
    """The tokens by which a session's and an agent's messages are found; the view builds the same."""
    return f"s{session_pk} a{agent_pk}"


def insert(statements: Statements, rows: Sequence[IndexRow]) -> None:
    """Adds rows to the index."""
    if rows:
        statements.run_many(_INSERT, rows)
        if next(_TURNS):
            pages = max(min(_MERGED_A_ROW * len(rows), _MERGE_PAGES), _MERGED_A_ROW_OF_MANY * len(rows))
            statements.run(_MERGE, (pages,))


def delete(statements: Statements, rows: Sequence[IndexRow]) -> None:
    """Removes rows, given exactly as they were added."""
    if rows:
        statements.run_many(_DELETE, rows)


def recreate(connection: sa.Connection) -> None:
    """Makes the whole index anew from the view, whatever is left of it."""
    try:
        with connection.begin_nested():
            connection.exec_driver_sql(f"DROP TABLE IF EXISTS {INDEX}")
    except exc.DatabaseError:
        _empty(connection)
        connection.exec_driver_sql(f"DROP TABLE {INDEX}")
    connection.exec_driver_sql(CREATE)
    for statement in CONFIGURE:
        connection.exec_driver_sql(statement)
    connection.exec_driver_sql(f"INSERT INTO {INDEX}({INDEX}) VALUES ('rebuild')")


def _empty(connection: sa.Connection) -> None:
    """Gives the index the tables of a new, empty one: FTS5 cannot even drop an index whose tables it cannot read."""
    connection.exec_driver_sql(f"CREATE VIRTUAL TABLE {_SPARE} USING fts5(body, scope, content='{VIEW}')")
    tables = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name GLOB ?"
    for spare, statement in connection.exec_driver_sql(tables, (_SPARE + "_*",)).all():
        name = INDEX + spare.removeprefix(_SPARE)
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS {name}")
        connection.exec_driver_sql(statement.replace(spare, name))
        connection.exec_driver_sql(f"INSERT INTO {name} SELECT * FROM {spare}")
    connection.exec_driver_sql(f"DROP TABLE {_SPARE}")


def merge_some(connection: sa.Connection, *, begin: bool) -> bool:
    """Merges some pages' worth of the index, after a first step that says that all of it shall become one piece.

    Source: https://sqlite.org/fts5.html#the_merge_command, which tells the end by the count of changes.
    """
    before = connection.exec_driver_sql("SELECT total_changes()").scalar_one()
    pages = -_MERGE_PAGES if begin else _MERGE_PAGES
    connection.exec_driver_sql(f"INSERT INTO {INDEX}({INDEX}, rank) VALUES ('merge', {pages})")
    after = connection.exec_driver_sql("SELECT total_changes()").scalar_one()
    return bool(after - before >= 2)


def check(connection: sa.Connection) -> None:
    """FTS5's strict integrity check: the index against its content; raises `sa.exc.DatabaseError` on any difference."""
    connection.exec_driver_sql(f"INSERT INTO {INDEX}({INDEX}, rank) VALUES ('integrity-check', 1)")


def tokens_in(size: bytes) -> int:
    """The length of a row in tokens, from its entry in `SIZES`: a varint for each column."""
    # The length of a column of fewer than 128 tokens is one byte.
    return sum(_varints(size)) if len(size) > _COLUMNS else sum(size)


def totals(statements: Statements) -> tuple[int, float]:
    """How many rows the index holds, and how many tokens they have on average (1 where FTS5's record is damaged).

    Source: the "averages record" of https://sqlite.org/src/file/ext/fts5/fts5_index.c.
    """
    record = statements.scalar(f"SELECT block FROM {INDEX}_data WHERE id = 1")
    rows, *tokens = _varints(record or b"\0")
    return rows, (sum(tokens) / rows if rows else 0.0) or 1.0


def is_rare(statements: Statements, expression: str, most: int) -> bool:
    """Whether at most `most` rows of the index match."""
    statement = f"SELECT count(*) FROM (SELECT 1 FROM {INDEX} WHERE {INDEX} MATCH ? LIMIT ?)"
    return bool(statements.scalar(statement, (expression, most + 1)) <= most)


_COLUMNS = 2


def _varints(data: bytes) -> list[int]:
    """The numbers in a run of SQLite's variable-length integers, each below 2^56."""
    numbers = [0]
    for byte in data:
        numbers[-1] = numbers[-1] << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(0)
    return numbers[:-1]


def completions(statements: Statements, query: Query) -> tuple[str, ...]:
    """The words in the index that begin like the last one of a prefix query; none where FTS5 is as quick by itself.

    FTS5 merges the lists of all of them before it gives the first match: in a large index that takes long even for a
    single word. Asked for one by one, their lists are only read as far as is needed.
    """
    if query.match is not Match.PREFIX or totals(statements)[0] < _LARGE:
        return ()
    begin = query.phrases[-1][-1]
    params = {"begin": begin, "end": begin + "\U0010ffff", "most": _COMPLETIONS + 1}
    try:
        found = tuple(term for (term,) in statements.all(_TERMS_FROM, params))
    except DATABASE_ERRORS:
        # The view of the terms is lost, or what it shows is damaged.
        return ()
    return found if len(found) <= _COMPLETIONS else ()


_LARGE = 100_000
"""Rows from which on it takes FTS5 long to merge the lists of words that begin alike."""
_COMPLETIONS = 256
# One term after the other, each the first one behind the last. Tokens hold no character as small as the one that makes
# the next text behind them.
_TERMS_FROM = f"""WITH RECURSIVE found(term) AS (
    SELECT (SELECT term FROM {TERMS} WHERE term >= :begin LIMIT 1)
    UNION ALL SELECT (SELECT term FROM {TERMS} WHERE term >= found.term || char(1) LIMIT 1)
    FROM found WHERE found.term < :end LIMIT :most
) SELECT term FROM found WHERE term < :end"""


def match_expression(
    query: Query, scope: Iterable[str] = (), agents: Iterable[str] = (), ends: Iterable[str] = ()
) -> str:
    """The FTS5 expression for a query, narrowed to rows that hold one of the tokens in each non-empty set.

    `ends` are the words that complete a prefix query, if they are known. Tokens are folded letters and digits alone,
    so that nothing in quotes can be read as syntax.
    """
    phrases = [_quoted(phrase) for phrase in query.phrases]
    if query.match is Match.PREFIX:
        stem = query.phrases[-1][:-1]
        known = [_quoted((*stem, end)) for end in ends]
        phrases[-1] = f"({' OR '.join(known)})" if known else phrases[-1] + "*"
    expression = f"({(' OR ' if query.match is Match.ANY else ' AND ').join(phrases)})"
    # To be told which column is meant makes FTS5 read every position of each match, which takes longer.
    if any(all(map(_SCOPE_TOKEN.fullmatch, phrase)) for phrase in query.phrases):
        expression = f"{{body}} : {expression}"
    for narrowing in (scope, agents):
        if tokens := list(narrowing):
            expression += f" AND {{scope}} : ({' OR '.join(tokens)})"
    return expression


def _quoted(phrase: Iterable[str]) -> str:
    return f'"{" ".join(phrase)}"'
