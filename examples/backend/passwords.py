"""Passwords as salted scrypt hashes."""

import base64
import hashlib
import hmac
import os

# 16 MiB and about a fifth of a second for each guess. Stored with each hash, so that they can be raised later.
_COST, _BLOCK, _PARALLEL = 2**14, 8, 5


def hashed(password: str) -> str:
    """A hash of `password` with a salt of its own, to be stored."""
    salt = os.urandom(16)
    return "$".join(map(str, (_COST, _BLOCK, _PARALLEL, _text(salt), _text(_scrypt(password, salt)))))


def fits(password: str, stored: str | None) -> bool:
    """Whether `stored` is a hash of `password`; takes as long where there is no such user (None)."""
    cost, block, parallel, salt, wanted = (stored or _NOBODY).split("$")
    found = _scrypt(password, base64.b64decode(salt), int(cost), int(block), int(parallel))
    return hmac.compare_digest(found, base64.b64decode(wanted)) and stored is not None


def _scrypt(password: str, salt: bytes, cost: int = _COST, block: int = _BLOCK, parallel: int = _PARALLEL) -> bytes:
    # scrypt needs 128 * cost * block bytes; the default limit allows no more than just that.
    memory = 256 * cost * block
    return hashlib.scrypt(password.encode(), salt=salt, n=cost, r=block, p=parallel, maxmem=memory)


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


_NOBODY = f"{_COST}${_BLOCK}${_PARALLEL}${_text(bytes(16))}${_text(bytes(64))}"
