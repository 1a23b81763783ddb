"""The store to be damaged."""

import shutil
from pathlib import Path

import pytest

from tests.damage.a_store import HIDDEN, LENGTH, ONE, OTHER
from tests.factories import opened


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of three sessions, one of them incognito, with a branch left and a reset."""
    path = tmp_path_factory.mktemp("sound") / "store.db"
    with opened(path) as scroll:
        for key in (ONE, OTHER):
            scroll.ensure_session(key)
            scroll.append_many(
                key,
                [
                    {
                        "role": "assistant" if place % 2 else "user",
                        "content": f"granite place{place} 备份策略 of {key}",
                        "message_id": f"m{place}",
                    }
                    for place in range(LENGTH)
                ],
            )
            scroll.rewind(key, f"m{LENGTH - 6}")
            scroll.append(key, "tool", [{"type": "tool_result", "text": "unindexed"}])
            scroll.reset(key, keep=3)
            scroll.append(key, "user", f"after the reset of {key}")
        scroll.ensure_session(HIDDEN, incognito=True)
        scroll.append(HIDDEN, "user", "heliotrope")
        scroll.maintain()
    return path


@pytest.fixture
def path(sound: Path, tmp_path: Path) -> Path:
    """That store's file, to be damaged."""
    return Path(shutil.copyfile(sound, tmp_path / "store.db"))
