"""Whether the application keeps up: no other consumer may read a partition that it holds.

The streams say where the application stands
(:meth:`~tallymark.client.consuming.stream.Stream.standing`); this looks now and again, so that
handing out a message costs nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Final

from tallymark.client.consuming.stream import Stream

_WARN_AT: Final = 0.7
"""Part of the limit after which a warning is due."""
_FRAMES: Final = 3


class PollState(Enum):
    """What a look found."""

    FINE = "fine"
    WARN = "it may soon be too late; said once"
    SLOW = "it is too late"
    BACK = "it was slow, and has asked again"


class PollWatchdog:
    """Watches the streams of one consumer. For one thread, but :meth:`numbers` is for any."""

    def __init__(self, streams: Sequence[Stream], limit_ms: int) -> None:
        self._streams = streams
        self.limit_ms = limit_ms
        self._standing: list[tuple[int, ...] | None] = [None for _ in streams]
        self._since: list[int | None] = [None for _ in streams]
        self._warned = False
        self._slow = False
        self._longest_ms = 0

    @property
    def every_ms(self) -> int:
        """How often to look."""
        return max(5, min(1000, self.limit_ms // 20))

    def look(self, now_ms: int) -> PollState:
        """Look now. SLOW is said until the application asks."""
        for number, stream in enumerate(self._streams):
            standing = stream.standing()
            if standing is None or standing != self._standing[number]:
                self._since[number] = None if standing is None else now_ms
                self._standing[number] = standing
        begun = [since for since in self._since if since is not None]
        self._longest_ms = now_ms - min(begun) if begun else 0
        was_slow, self._slow = self._slow, self._longest_ms >= self.limit_ms
        if self._slow:
            return PollState.SLOW
        if was_slow:
            self._warned = False
            return PollState.BACK
        due = self._longest_ms >= self.limit_ms * _WARN_AT
        warn, self._warned = due and not self._warned, due
        return PollState.WARN if warn else PollState.FINE

    def numbers(self) -> str:
        """How long the application has been at work, if it is near the limit or beyond."""
        if self._longest_ms < self.limit_ms * _WARN_AT:
            return ""
        return (
            f"it has not asked for the next message for {self._longest_ms / 1000:.1f} s; "
            f"max_poll_interval_ms is {self.limit_ms}"
        )

    def culprit(self) -> str:
        """What is slow: the message, and what the thread that took it is doing."""
        number = min(
            (n for n, since in enumerate(self._since) if since is not None),
            key=lambda n: self._since[n] or 0,
            default=None,
        )
        if number is None:
            return "nothing"
        stream = self._streams[number]
        held = ", ".join(
            f"{item.topic}-{item.partition} offset {offset}"
            for item, offset in stream.held().items()
        )
        return f"{held or f'stream {number}, which is not read'}{_doing(stream.reader)}"


def _doing(thread: int) -> str:
    """The innermost functions of a thread, the outer first."""
    frame = sys._current_frames().get(thread)  # pyright: ignore[reportPrivateUsage]
    names: list[str] = []
    while frame is not None and len(names) < _FRAMES:
        code = frame.f_code
        names.append(f"{code.co_qualname} ({Path(code.co_filename).name}:{frame.f_lineno})")
        frame = frame.f_back
    return f", in {' > '.join(reversed(names))}" if names else ""
