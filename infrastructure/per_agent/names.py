"""Agent ids as file names: safe on every file system, never two ids for one name, and back.

Small ASCII letters, digits, `-` and `_` stand for themselves; every other byte of the id's UTF-8 is written `%xx`. So
no name depends on case or Unicode form, none holds a dot or a separator, and none is one that Windows reserves. The
beginning of an id that would make too long a name is kept and its SHA-256 follows; such a name does not tell the id.
"""

import hashlib
import re

KIN = "%kin"
"""The name of the file that no agent has: what an id becomes holds two hexadecimal digits behind each `%`."""
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")
_LONGEST = 160
"""Bytes of a name. File systems allow 255, of which SQLite and the URL's own words need some."""
_HASHED = re.compile(r"%~[0-9a-f]{64}$")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])$")


def file_name(agent_id: str) -> str:
    """The name of an agent's file, without what the URL puts around it."""
    name = "".join(map(_written, agent_id.encode("utf-8", "surrogatepass")))
    if _RESERVED.match(name):
        name = f"%{ord(name[0]):02x}{name[1:]}"
    if len(name) > _LONGEST:
        digest = hashlib.sha256(agent_id.encode("utf-8", "surrogatepass")).hexdigest()
        name = f"{name[: _LONGEST - 2 - len(digest)]}%~{digest}"
    return name


def _written(byte: int) -> str:
    return chr(byte) if byte in _PLAIN else f"%{byte:02x}"


def is_hashed(name: str) -> bool:
    """Whether a name tells its agent's id only in part."""
    return _HASHED.search(name) is not None


def agent_named(name: str) -> str | None:
    """The id that has exactly this file name; None for a name that no id has, or that does not tell it."""
    try:
        plain = re.sub(rb"%([0-9a-f]{2})", lambda found: bytes([int(found[1], 16)]), name.encode("ascii"))
        agent_id = plain.decode()
    except UnicodeError:
        return None
    return agent_id if agent_id and file_name(agent_id) == name else None
