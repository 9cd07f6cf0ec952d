"""The run of an import: send every record, remember what is acknowledged, compare the counts."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Final

from tallymark.cli.messages.reading.reader import Stopped
from tallymark.cli.messages.transfer.import_state import ImportState
from tallymark.cli.messages.transfer.plan import Counts, Exported
from tallymark.client.producing.delivery import Delivery
from tallymark.client.producing.producer import Producer
from tallymark.errors import UserError
from tallymark.shell.progress import Meter

_STORE_S: Final = 1.0
_LOOK_EVERY: Final = 500
"""Records between two looks at what is acknowledged."""


class Import:
    """``done`` counts, per partition of the file, the records that are acknowledged without a gap
    before them; it begins with what an earlier run did."""

    def __init__(
        self,
        producer: Producer,
        topic: str,
        done: Counts,
        state: ImportState,
        keep_partitions: bool,
    ) -> None:
        self.done = Counter(done)
        self._skip = dict(done)
        self._producer = producer
        self._topic = topic
        self._state = state
        self._keep = keep_partitions
        self._pending: dict[int, deque[Delivery]] = {}
        self._stored_at = time.monotonic()

    def send_all(self, records: Iterable[Exported], stop: Stopped, meter: Meter) -> bool:
        """Send what is not done yet; whether it came to the end of the file. Raises what kept the
        first record out."""
        for number, record in enumerate(records):
            if stop.is_set():
                return False
            if self._skip.get(record.partition, 0) > 0:
                self._skip[record.partition] -= 1
                continue
            self._pending.setdefault(record.partition, deque()).append(self._send(record))
            if number % _LOOK_EVERY == 0:
                self._look()
                meter.tick(lambda: (self.done.total(), f"{self.done.total():,} acknowledged"))
        return True

    def settle(self) -> None:
        """Everything that was sent is settled: count it, and remember that."""
        self._collect()
        self._state.store(self.done)

    def check(self, counts: Mapping[int, int]) -> None:
        """All is sent and settled: UserError unless as many are acknowledged as the file has."""
        for number, count in counts.items():
            if self.done[number] != count:
                raise UserError(
                    f"{self.done[number]} records of partition {number} are acknowledged, the file "
                    f"has {count}",
                    "was it changed meanwhile? import it again",
                )
        self._state.remove()

    def _send(self, record: Exported) -> Delivery:
        return self._producer.send(
            self._topic,
            record.value,
            key=record.key,
            partition=record.partition if self._keep else None,
            timestamp=max(0, record.timestamp),  # -1: it had none
            headers=record.headers,
        )

    def _look(self) -> None:
        self._collect()
        now = time.monotonic()
        if now - self._stored_at > _STORE_S:
            self._stored_at = now
            self._state.store(self.done)

    def _collect(self) -> None:
        for partition, waiting in self._pending.items():
            while waiting and waiting[0].done():
                waiting.popleft().result()
                self.done[partition] += 1
