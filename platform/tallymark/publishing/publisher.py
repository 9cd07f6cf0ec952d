"""The loop: take rows, fit and encode them, send them, count what became of each.

::

    read ──► rejected                    does not fit; in the rejects file
         └─► published ──► acknowledged  the brokers have it
                       └─► failed        they do not; in the rejects file, too

After the end ``read = rejected + published`` and ``published = acknowledged + failed``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from tallymark.clock import now_ms
from tallymark.errors import CODES, KafkaError, UserError
from tallymark.publishing.reading.rows import Bad, Row, Rows, Stop
from tallymark.publishing.rejects import Rejects
from tallymark.publishing.schemas.fitting import Fit, Misfit
from tallymark.serialization.errors import SerializationError

_log = logging.getLogger("publish")

RECORDS_OWN_FAULT: Final = frozenset(
    CODES[name] for name in ("MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_TIMESTAMP")
)
"""The cluster refuses this record and may well take the next one."""


class Sink(Protocol):
    """What is needed of a producer."""

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        timestamp: int | None = None,
        on_delivery: Callable[[Exception | None, Any], object] | None = None,
    ) -> object: ...


@dataclass(slots=True)
class Counts:
    """What became of the rows so far."""

    read: int = 0
    published: int = 0
    acknowledged: int = 0
    rejected: int = 0
    failed: int = 0

    def text(self) -> str:
        return (
            f"read={self.read} published={self.published} acknowledged={self.acknowledged} "
            f"rejected={self.rejected} failed={self.failed}"
        )

    @property
    def exit_code(self) -> int:
        """0: all of it is there; 2: some rows were rejected; 1: some were sent and got lost."""
        if self.failed or self.acknowledged < self.published:
            return 1
        return 2 if self.rejected else 0


class Publisher:
    """One run. ``encode`` makes the message's bytes of what ``fit`` made of a row, or raises
    SerializationError; ``old_ms`` is how old an event may be before a warning, None for never."""

    def __init__(
        self,
        sink: Sink,
        topic: str,
        fit: Fit,
        encode: Callable[[str, Any], bytes],
        rejects: Rejects,
        old_ms: int | None = None,
    ) -> None:
        self.counts = Counts()
        self.error: Exception | None = None
        """What ended the run, or the first failed delivery."""
        self._sink = sink
        self._topic = topic
        self._fit = fit
        self._encode = encode
        self._rejects = rejects
        self._old_ms = old_ms
        self._broken = False
        # The producer's thread reports deliveries.
        self._lock = threading.Lock()

    def run(
        self,
        rows: Rows,
        stop: Stop,
        max_events: int | None = None,
        tick: Callable[[Counts], None] = lambda _: None,
    ) -> None:
        """Publish until the rows end, ``stop`` is set, ``max_events`` were published or the cluster
        cannot be published to any more. ``tick`` is called for every row and pause."""
        if max_events == 0:
            return
        for row in rows:
            tick(self.counts)
            if isinstance(row, Row):
                self._publish(row)
            elif isinstance(row, Bad):
                self._reject(row.number, row.reason, row.raw)
            if self._broken or stop.is_set() or self.counts.published == max_events:
                return

    def _publish(self, row: Row) -> None:
        try:
            value = self._encode(self._topic, self._fit(row.values))
        except (Misfit, SerializationError) as error:
            self._reject(row.number, str(error), row.raw)
            return
        time_ms = now_ms() if row.time_ms is None else row.time_ms
        self._warn_if_old(time_ms)
        try:
            self._sink.send(
                self._topic,
                value,
                timestamp=time_ms,
                on_delivery=partial(self._delivered, row.number, row.raw),
            )
        except KafkaError as error:
            if error.code not in RECORDS_OWN_FAULT:
                self._give_up(row, error)
                return
            self._reject(row.number, str(error), row.raw)
        except Exception as error:  # reported at the end, with the counts; the row is kept
            self._give_up(row, error)
        else:
            self.counts.read += 1
            self.counts.published += 1

    def _reject(self, number: int, reason: str, raw: str) -> None:
        self._rejects.add(number, reason, raw)
        self.counts.read += 1
        self.counts.rejected += 1

    def _give_up(self, row: Row, error: Exception) -> None:
        """The producer takes no more. The row counts as rejected: it was never sent."""
        self._reject(row.number, f"not sent: {error}", row.raw)
        self.error = self.error or error
        self._broken = True

    def _delivered(self, number: int, raw: str, error: Exception | None, _metadata: object) -> None:
        if error is None:
            with self._lock:
                self.counts.acknowledged += 1
            return
        with self._lock:
            self.counts.failed += 1
            self.error = self.error or error
        if not (isinstance(error, KafkaError) and error.code in RECORDS_OWN_FAULT):
            # The delivery time-out has passed by now: going on would only lose more.
            self._broken = True
        try:
            self._rejects.add(number, f"not delivered: {error}", raw)
        except UserError as unwritable:  # here the producer's thread would only log it
            self.error = unwritable
            self._broken = True

    def _warn_if_old(self, time_ms: int) -> None:
        if self._old_ms is None or time_ms > now_ms() - self._old_ms:
            return
        self._old_ms = None
        _log.warning(
            "events are older than %s, as at %s: they count as skewed; publish old data with "
            "--backfill",
            "the audit's skew limit",
            time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time_ms / 1000)),
        )
