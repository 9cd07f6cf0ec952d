"""What a mirror reports while it runs: its state for the metrics, and a line in the log."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Final

from tallymark.mirror.copying.copier import Copier
from tallymark.mirror.copying.pending_range import PendingRange
from tallymark.mirror.monitoring.lag import Copied, MirrorState, lags_of
from tallymark.mirror.observer import MirrorContext
from tallymark.mirror.progress import Partition
from tallymark.mirror.source.source import Source

LINE_MS: Final = 60_000
_log: Final = logging.getLogger("mirror")


class ProgressLog:
    """The reports of one mirror. It is an observer, so that it is called for gaps. ``state`` is
    replaced as a whole, so any thread may read it."""

    def __init__(self, name: str) -> None:
        self.state = MirrorState(name)
        self._gaps: Counter[str] = Counter()
        self._copied: dict[Partition, Copied] = {}
        self._line_at = 0
        self._line_bytes = 0

    def arrived(self, pending: PendingRange) -> None:
        """The target has acknowledged the range."""
        self._copied.setdefault(pending.partition, Copied()).add(pending.records, pending.size)

    def update(
        self, copier: Copier, source: Source, waiting: Mapping[Partition, int], now_ms: int
    ) -> None:
        """Take the present state, and log it once a minute if anything was copied or is behind."""
        stopped = source.refused.stopped() | dict(source.stopped)
        lags = lags_of(source.owned, copier.progress, source.ends, waiting, self._copied, now_ms)
        self.state = MirrorState(
            self.state.name,
            copied=copier.copied,
            copied_bytes=copier.copied_bytes,
            whole=copier.whole,
            returned=copier.returned,
            gaps=dict(self._gaps),
            open_batches=copier.progress.open_count,
            lags=lags,
            stopped=tuple(one for at, one in sorted(stopped.items()) if at in source.owned),
        )
        if now_ms >= self._line_at:
            self._log_line(now_ms)

    def _log_line(self, now_ms: int) -> None:
        state, first = self.state, not self._line_at
        self._line_at = now_ms + LINE_MS
        fresh, self._line_bytes = state.copied_bytes - self._line_bytes, state.copied_bytes
        if first or not (fresh or state.lag):
            return
        _log.info(
            "%s: %d records copied so far, %.1f MB/s; lag: %d records, %.1f s",
            state.name,
            state.copied,
            fresh / LINE_MS / 1000,
            state.lag,
            state.seconds,
        )

    # -- as an observer -----------------------------------------------------------------------

    def attach(self, context: MirrorContext) -> None: ...

    def on_copied(
        self, topic: str, partition: int, first_offset: int, last_offset: int
    ) -> None: ...

    def on_gap(
        self, topic: str, partition: int, from_offset: int, to_offset: int, reason: str
    ) -> None:
        self._gaps[reason] += 1

    def on_tick(self, now_ms: int, oldest_pending_ms: int | None) -> None: ...

    def on_close(self, now_ms: int) -> None: ...
