"""Ids that sort by the time they were made, so that an index on them grows at its end."""

import secrets
import time


def new_id() -> str:
    """22 hexadecimal characters: the time in milliseconds (12), then random ones (10)."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(5)}"
