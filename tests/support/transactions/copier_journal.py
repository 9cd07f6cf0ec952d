"""What a copier did, written by its process as it happens. :mod:`copied` reads it as a history.

A file of lines, each JSON. A process that starts ends the line that the one before it may have
torn, and begins with an empty one::

    ["open", NUMBER]
    ["ending", AT, NUMBER, {PARTITION: [[VALUE, OFFSET or null], ...]}]
                                                            before the commit is asked for
    ["committed" | "aborted" | "in doubt", AT, NUMBER]

AT is the monotonic clock, which is the same in all processes of a machine. A value is
``TEXT|TRANSACTION``, so each attempt to copy a text is a value of its own.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tallymark.client.producing.batches.tally import BatchTally
from tallymark.client.producing.interceptors.producer_interceptor import ProducerContext
from tallymark.client.producing.interceptors.transaction_stage import TransactionStage

_ENDS: Final = {
    TransactionStage.COMMITTED: "committed",
    TransactionStage.ABORTED: "aborted",
    TransactionStage.IN_DOUBT: "in doubt",
}


class CopierJournal:
    """Of one producer, whose interceptor it is. ``path`` is appended to; :meth:`value` is called
    for each record by the thread that copies, which calls nothing else meanwhile."""

    def __init__(self, path: Path, process: str) -> None:
        self._process = process
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._number = 0
        self._sent: dict[int, list[str]] = defaultdict(list)
        self._offsets: dict[int, list[int]] = defaultdict(list)
        os.write(self._file, b"\n\n")

    def value(self, partition: int, text: bytes) -> bytes:
        """What is written for this text in the transaction that is open."""
        value = f"{text.decode()}|{self._process}.{self._number}"
        self._sent[partition].append(value)
        return value.encode()

    def close(self) -> None:
        """No more lines; the producer is closed."""
        os.close(self._file)

    def on_transaction(self, stage: TransactionStage) -> None:
        """See :mod:`tallymark.client.producing.interceptors.producer_interceptor`."""
        if stage is TransactionStage.OPEN:
            self._number += 1
            self._sent.clear()
            self._offsets.clear()
            self._write("open", self._number)
        elif stage is TransactionStage.ENDING:
            self._write("ending", time.monotonic(), self._number, self._placed())
        else:
            self._write(_ENDS[stage], time.monotonic(), self._number)

    def on_acknowledged(self, batch: BatchTally, base_offset: int) -> None:
        self._offsets[batch.partition] += range(base_offset, base_offset + batch.count)

    def attach(self, context: ProducerContext) -> None: ...
    def on_send(self, batch: BatchTally) -> None: ...
    def on_failed(self, batch: BatchTally, error: Exception, in_doubt: bool) -> None: ...
    def on_split(self, batch: BatchTally, parts: Sequence[BatchTally]) -> None: ...
    def on_tick(self, now_ms: int, oldest_pending_ms: int | None) -> None: ...
    def on_close(self, now_ms: int) -> None: ...

    def _placed(self) -> dict[int, list[tuple[str, int | None]]]:
        """Each value with its offset, where all of its partition were acknowledged, in order."""
        placed: dict[int, list[tuple[str, int | None]]] = {}
        for partition, values in self._sent.items():
            offsets: Sequence[int | None] = self._offsets[partition]
            if len(offsets) != len(values):
                offsets = [None] * len(values)
            placed[partition] = list(zip(values, offsets, strict=True))
        return placed

    def _write(self, *line: Any) -> None:
        os.write(self._file, json.dumps(line).encode() + b"\n")
