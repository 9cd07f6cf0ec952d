"""Nodes that are not what stands there: left out, told once, and in nobody's way.

Who may write to ZooKeeper by hand, or by another program, leaves such things: a folder in the place
of a topic, a node with other bytes. One of them must cost what it is about, and nothing else.
"""

from __future__ import annotations

import logging
from typing import Final

from tallymark.errors import TallymarkError

log: Final = logging.getLogger(__name__)

_MOST: Final = 1000


class MalformedNodes:
    """Those that one reader has met."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def left_out(self, path: str, why: TallymarkError | str) -> None:
        """Tell, unless the same was told of it before."""
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
        """It is as it should be (again)."""
        self._told.pop(path, None)
