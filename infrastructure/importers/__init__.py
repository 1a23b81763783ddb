"""Readers for transcripts of other programs: from their files to `backscroll.domain.records`, storing nothing."""

from backscroll.domain.ports import TranscriptReader
from backscroll.infrastructure.importers.jsonl_sessions import JsonlSessionReader, PiSessionReader


def readers() -> tuple[TranscriptReader, ...]:
    """Every reader, the most particular first: the first one that recognises a path is the one for it."""
    return PiSessionReader(), JsonlSessionReader()
