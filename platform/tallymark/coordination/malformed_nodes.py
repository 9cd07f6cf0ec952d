"""Nodes with unexpected content: left out, reported once, and without effect on anything else.

An operator or another program may write such nodes: a folder in the place of a topic, a node with
other bytes. Such a node must only affect what it is about.
"""

from __future__ import annotations

import logging
from typing import Final

from tallymark.errors import TallymarkError

log: Final = logging.getLogger(__name__)

_MOST: Final = 1000


class MalformedNodes:
    """The malformed nodes that one reader has found."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def left_out(self, path: str, why: TallymarkError | str) -> None:
        """Log that a node is left out, unless the same was logged before."""
        reason = str(why)[:500]
        if self._told.get(path) == reason:
            return
        if len(self._told) >= _MOST:
            self._told.clear()
        self._told[path] = reason
        log.warning(
            "%r is left out: %s; mend or remove the node, everything else goes on", path, reason
        )

    def fine(self, path: str) -> None:
        """The node is well formed (again)."""
        self._told.pop(path, None)
