"""Our revisions as a branch of a host's own environment, exactly as docs/migrations.md describes it."""

import io
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.config import CommandLine, Config
from alembic.util import CommandError

from backscroll import Backscroll, InvalidRequest, Requester, SchemaOutdated, Settings, migrate
from backscroll.infrastructure.migrate import HEAD, downgrade, upgrade, version_location
from backscroll.infrastructure.rows import VERSION_TABLE
from tests.migrations.databases import rows, schema, tables, url

ROOT = Path(__file__).parents[2]
OPERATOR = Requester.operator()
KEY = "agent:main:main"
HEADS = ["0001", "(head)", HEAD, "(backscroll)", "(head)"]
MODELS = """
import sqlalchemy as sa
from sqlalchemy import orm


class Base(orm.DeclarativeBase):
    pass


class Trip(Base):
    __tablename__ = "trips"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
"""
REVISION = """
import sqlalchemy as sa
from alembic import op

revision, down_revision, depends_on = {revision!r}, {after!r}, {needs!r}


def upgrade():
    op.create_table({table!r}, sa.Column("id", sa.Integer, primary_key=True, nullable=False))


def downgrade():
    op.drop_table({table!r})
"""


class Host:
    """An application with models, an Alembic environment and a database of its own, in the current folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "app.db"
        self.ini = folder / "alembic.ini"
        self.models = folder / "app/models.py"
        self.environment = folder / "migrations/env.py"
        page = (ROOT / "docs/migrations.md").read_text(encoding="utf-8")
        (ini,) = re.findall(r"^```ini\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        (environment,) = re.findall(r"^```python\n(from logging.*?)^```$", page, re.MULTILINE | re.DOTALL)
        self.models.parent.mkdir()
        self.models.write_text(MODELS)
        self.alembic("init", "migrations")
        self.ini.write_text(ini)
        self.environment.write_text(environment)
        # A number that ours had once, too.
        self.revision("0001", None, "trips")

    def revision(self, revision: str, after: str | None, table: str, needs: str | None = None) -> None:
        script = REVISION.format(revision=revision, after=after, table=table, needs=needs)
        (self.folder / f"migrations/versions/{revision}.py").write_text(script)

    def alembic(self, *arguments: str) -> str:
        """What the command prints; it runs in this process, which starts faster."""
        for name in ("app", "app.models"):
            sys.modules.pop(name, None)
        options = CommandLine().parser.parse_args(arguments)
        command, positional, named = options.cmd
        printed = io.StringIO()
        config = Config(self.ini, stdout=printed, cmd_opts=options)
        given = {name: getattr(options, name, None) for name in named}
        command(config, *(getattr(options, name) for name in positional), **given)
        return printed.getvalue()

    def stamps(self, table: str = "alembic_version") -> list[str]:
        with closing(sqlite3.connect(self.path)) as connection:
            return sorted(name for (name,) in connection.execute(f"SELECT version_num FROM {table}"))

    def opened(self, **how: bool) -> Backscroll:
        return Backscroll.open(Settings(database_url=url(self.path), background_reindex=False), **how)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield Host(tmp_path)
    for name in ("app", "app.models"):
        sys.modules.pop(name, None)


def use(host: Host, **how: bool) -> None:
    with host.opened(**how) as scroll:
        scroll.ensure_session(KEY)
        scroll.append(KEY, "user", "granite", message_id="m1")
        scroll.reindex()
        assert [hit.message_id for hit in scroll.search("granite", requester=OPERATOR).hits] == ["m1"]
        assert scroll.verify().ok


def test_one_upgrade_makes_both_and_the_store_opens(host, store_path):
    assert host.alembic("heads").split() == HEADS
    host.alembic("upgrade", "heads")
    assert host.stamps() == ["0001", HEAD]
    ours = {one for one in schema(host.path) if "backscroll" in one[1]}
    assert ours == {one for one in schema(store_path) if "backscroll" in one[1] and VERSION_TABLE not in one[1]}
    use(host, migrate=False)
    use(host)
    engine = sa.create_engine(url(host.path))
    with engine.connect() as connection:
        migrate(connection)
    engine.dispose()
    assert VERSION_TABLE not in tables(host.path)

    # Our tables taken back alone, then all the way, and up again.
    before = rows(host.path)["backscroll_messages"]
    host.alembic("downgrade", "backscroll@0001_backscroll")
    assert host.stamps() == ["0001", "0001_backscroll"]
    for how in ({"migrate": False}, {}):
        with pytest.raises(SchemaOutdated, match=r"0001_backscroll.*host"):
            host.opened(**how)
    with engine.connect() as connection:
        with pytest.raises(SchemaOutdated, match="host"):
            migrate(connection)
        with pytest.raises(InvalidRequest, match="host"):
            downgrade(connection, "base")
    engine.dispose()
    host.alembic("upgrade", "heads")
    after = rows(host.path)["backscroll_messages"]
    assert [row["message_id"] for row in after] == [row["message_id"] for row in before] == ["m1"]
    use(host, migrate=False)
    host.alembic("downgrade", "backscroll@base")
    assert {name for name in tables(host.path) if "backscroll" in name} == set()
    assert host.stamps() == ["0001"]
    host.alembic("upgrade", "heads")
    use(host, migrate=False)


def test_autogenerate_writes_the_hosts_changes_alone(host):
    host.alembic("upgrade", "heads")
    host.alembic("check")
    host.models.write_text(
        MODELS + MODELS[MODELS.index("class Trip") :].replace("Trip", "Stop").replace("trips", "stops")
    )
    with closing(sqlite3.connect(host.path)) as connection:
        connection.execute("CREATE TABLE scratch (id INTEGER)")
    with pytest.raises(CommandError, match="stops"):
        host.alembic("check")
    host.alembic("revision", "--autogenerate", "--head", "0001", "--rev-id", "0002", "-m", "stops")
    (script,) = (host.folder / "migrations/versions").glob("0002_*.py")
    written = script.read_text()
    assert "create_table('stops'" in written
    assert "backscroll" not in written
    assert "scratch" not in written
    host.alembic("upgrade", "heads")
    host.alembic("check")
    assert host.stamps() == ["0002", HEAD]
    use(host, migrate=False)


def test_a_revision_of_the_host_that_needs_ours_comes_after_it_and_hides_its_name(host):
    host.revision("0002_uses_backscroll", "0001", "stops", needs=HEAD)
    host.alembic("upgrade", "0002_uses_backscroll")
    assert host.stamps() == ["0002_uses_backscroll"]
    use(host, migrate=False)
    use(host)
    host.alembic("downgrade", "backscroll@0001_backscroll")
    assert host.stamps() == ["0001", "0001_backscroll"]
    with pytest.raises(SchemaOutdated, match="0001_backscroll"):
        host.opened(migrate=False)


def test_a_version_table_of_another_name_does_not_matter(host):
    environment = host.environment.read_text()
    host.environment.write_text(environment.replace("render_as_batch", 'version_table="versions", render_as_batch'))
    host.alembic("upgrade", "heads")
    assert host.stamps("versions") == ["0001", HEAD]
    use(host, migrate=False)
    use(host)
    host.alembic("downgrade", "backscroll@0001_backscroll")
    for how in ({"migrate": False}, {}):
        with pytest.raises(SchemaOutdated, match=r"none.*host"):
            host.opened(**how)


def test_a_history_that_a_newer_release_wrote_is_refused(host):
    host.alembic("upgrade", "heads")
    with closing(sqlite3.connect(host.path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999_backscroll' WHERE version_num = ?", (HEAD,))
    for how in ({"migrate": False}, {}):
        with pytest.raises(SchemaOutdated, match="9999_backscroll"):
            host.opened(**how)


def test_what_fails_in_the_hosts_upgrade_takes_ours_back_with_it(host):
    host.revision("0002", "0001", "trips", needs=HEAD)
    with pytest.raises(sa.exc.OperationalError, match="trips already exists"):
        host.alembic("upgrade", "heads")
    assert tables(host.path) == set()


def test_a_store_with_our_own_history_changes_over(host):
    host.alembic("upgrade", "0001")
    use(host)
    assert host.stamps(VERSION_TABLE) == [HEAD]
    before = rows(host.path)["backscroll_messages"]
    # Too early: nothing is harmed.
    with pytest.raises(sa.exc.OperationalError, match="already exists"):
        host.alembic("upgrade", "heads")
    assert rows(host.path)["backscroll_messages"] == before
    host.alembic("stamp", "0001", "backscroll@head")
    assert host.stamps() == ["0001", HEAD]
    host.revision("0002", "0001", "unused")
    script = host.folder / "migrations/versions/0002.py"
    body = script.read_text().split("def upgrade")[0]
    script.write_text(f'{body}def upgrade():\n    op.drop_table("{VERSION_TABLE}")\n')
    host.alembic("upgrade", "heads")
    assert VERSION_TABLE not in tables(host.path)
    assert rows(host.path)["backscroll_messages"] == before
    use(host, migrate=False)


def test_the_folder_of_the_revisions_is_the_one_that_the_configuration_names(host):
    shutil.copytree(version_location(), host.folder / "copy", ignore=shutil.ignore_patterns("__pycache__"))
    assert {path.name for path in (host.folder / "copy").glob("*.py")} >= {"0001_transcripts.py", "0002_index.py"}
    host.ini.write_text(host.ini.read_text().replace("backscroll:migrations/versions", version_location()))
    assert host.alembic("heads").split() == HEADS
    # As a host runs it.
    done = subprocess.run([sys.executable, "-m", "alembic", "heads"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == HEADS


def test_tables_of_ours_that_no_history_names_are_taken_as_they_are(store_path):
    with closing(sqlite3.connect(store_path)) as connection, connection:
        connection.execute(f"DROP TABLE {VERSION_TABLE}")
    before = schema(store_path)
    with Backscroll.open(url(store_path)) as scroll:
        assert scroll.verify().ok
    assert schema(store_path) == before
    engine = sa.create_engine(url(store_path))
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE backscroll_sessions ADD COLUMN more TEXT")
    with engine.connect() as connection, pytest.raises(SchemaOutdated, match="none"):
        upgrade(connection)
    engine.dispose()
