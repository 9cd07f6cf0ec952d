"""Numbers with their nouns."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """``1 topic``, ``2 topics``: of a noun whose plural has an s."""
    return f"{count:d} {noun}" if count == 1 else f"{count:d} {noun}s"
