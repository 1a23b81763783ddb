"""The package's front: what it exports, and that importing it costs nothing yet."""

import subprocess
import sys

import pytest

import backscroll


@pytest.mark.parametrize("name", backscroll.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(backscroll, name).__name__ == name


def test_what_is_not_public_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = backscroll.nothing_of_the_kind
    assert dir(backscroll) == backscroll.__all__ == sorted(backscroll.__all__)


def test_importing_the_package_loads_nothing_else() -> None:
    loaded = "print(sorted({name.partition('.')[0] for name in sys.modules} & {'sqlalchemy', 'pydantic', 'alembic'}))"
    program = f"import sys, backscroll; {loaded}; backscroll.Requester('agent:a:b'); {loaded}"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == ["[]", "[]"]
