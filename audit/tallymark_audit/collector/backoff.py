"""The failures of the moment: one log line when a failure begins, one when it ends, and the time to
wait between attempts."""

from __future__ import annotations

import logging
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

log: Final = logging.getLogger(__name__)
FIRST_PAUSE_MS: Final = 200
LONGEST_PAUSE_MS: Final = 10_000


@dataclass(slots=True)
class _Trouble:
    pause_ms: int
    until: int


def committing(place: tuple[str, int]) -> Hashable:
    """The trouble of a partition that was read and cannot be committed: it is read well."""
    return "commit", place


class Backoff:
    """Backoff by what has them; each is waited out longer the longer it lasts."""

    def __init__(self, who: str) -> None:
        self._who = who
        self._open: dict[Hashable, _Trouble] = {}

    def begin(
        self, what: Hashable, text: str, now_ms: int, cause: BaseException | None = None
    ) -> None:
        """Note a failure, the first one or another. ``cause``: an unexpected error."""
        known = self._open.get(what)
        if known is None:
            log.warning("%s: %s; will try again", self._who, text, exc_info=cause)
        pause = min(LONGEST_PAUSE_MS, 2 * known.pause_ms) if known else FIRST_PAUSE_MS
        self._open[what] = _Trouble(pause, now_ms + pause)

    def end(self, what: Hashable) -> None:
        """Note that it works, again or still."""
        if self._open.pop(what, None) is not None:
            log.info("%s: %s is well again", self._who, what)

    def due(self, what: Hashable, now_ms: int) -> bool:
        """Whether it is worth a try: it is well, or has been waited for."""
        known = self._open.get(what)
        return known is None or now_ms >= known.until

    def pause_ms(self, what: Hashable) -> int:
        """How long to wait now; 0 if it is well."""
        known = self._open.get(what)
        return known.pause_ms if known else 0
