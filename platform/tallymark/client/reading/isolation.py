"""The two isolation levels of a reader, by name and by their number on the wire (KIP-98)."""

from __future__ import annotations

from typing import Final, Literal

from tallymark.errors import UserError

Isolation = Literal["read_uncommitted", "read_committed"]

_LEVELS: Final = {"read_uncommitted": 0, "read_committed": 1}


def isolation_level(isolation: str) -> int:
    """The number on the wire. UserError names the ones there are."""
    level = _LEVELS.get(isolation)
    if level is None:
        raise UserError(f"isolation={isolation!r} is none", f"give {' or '.join(_LEVELS)}")
    return level
