"""What a copier did, written by its process as it happens. :mod:`copied` reads it as a history.

A file of lines, each JSON. A process that starts ends the line that the one before it may have
torn, and begins with an empty one::

    ["open", NUMBER]
    ["ending", AT, NUMBER, READ, WRITTEN]                   before the commit is asked for
    ["committed" | "aborted" | "in doubt", AT, NUMBER]

    READ, WRITTEN    {"TOPIC-PARTITION": [[VALUE, OFFSET], ...]}, in order; the offset of what was
                     written is null where it is not known

AT is the monotonic clock, which is the same in all processes of a machine. What is written is
``TEXT|TRANSACTION``, so each attempt to copy a text is a value of its own; what is read may be from
elsewhere, without a transaction.
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
from tallymark.client.reading.message import Message

_ENDS: Final = {
    TransactionStage.COMMITTED: "committed",
    TransactionStage.ABORTED: "aborted",
    TransactionStage.IN_DOUBT: "in doubt",
}


class CopierJournal:
    """Of one producer, whose interceptor it is. ``path`` is appended to; :meth:`read` and
    :meth:`value` are called for each record by the thread that copies, which calls nothing else
    meanwhile."""

    def __init__(self, path: Path, process: str) -> None:
        self._process = process
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._number = 0
        self._read: dict[str, list[tuple[str, int]]] = defaultdict(list)
        self._sent: dict[str, list[str]] = defaultdict(list)
        self._offsets: dict[str, list[int]] = defaultdict(list)
        os.write(self._file, b"\n\n")

    def read(self, message: Message) -> str:
        """The transaction that is open has read this message. Returns its text."""
        value = bytes(message.value or b"").decode()
        self._read[_place(message.topic, message.partition)].append((value, message.offset))
        return value.partition("|")[0]

    def value(self, topic: str, partition: int, text: str) -> bytes:
        """What is written for this text in the transaction that is open."""
        value = f"{text}|{self._process}.{self._number}"
        self._sent[_place(topic, partition)].append(value)
        return value.encode()

    def close(self) -> None:
        """No more lines; the producer is closed."""
        os.close(self._file)

    def on_transaction(self, stage: TransactionStage) -> None:
        """See :mod:`tallymark.client.producing.interceptors.producer_interceptor`."""
        if stage is TransactionStage.OPEN:
            self._number += 1
            self._read.clear()
            self._sent.clear()
            self._offsets.clear()
            self._write("open", self._number)
        elif stage is TransactionStage.ENDING:
            self._write("ending", time.monotonic(), self._number, self._read, self._written())
        else:
            self._write(_ENDS[stage], time.monotonic(), self._number)

    def on_acknowledged(self, batch: BatchTally, base_offset: int) -> None:
        place = _place(batch.topic, batch.partition)
        self._offsets[place] += range(base_offset, base_offset + batch.count)

    def attach(self, context: ProducerContext) -> None: ...
    def on_send(self, batch: BatchTally) -> None: ...
    def on_failed(self, batch: BatchTally, error: Exception, in_doubt: bool) -> None: ...
    def on_split(self, batch: BatchTally, parts: Sequence[BatchTally]) -> None: ...
    def on_tick(self, now_ms: int, oldest_pending_ms: int | None) -> None: ...
    def on_close(self, now_ms: int) -> None: ...

    def _written(self) -> dict[str, list[tuple[str, int | None]]]:
        """Each value with its offset, where all of its partition were acknowledged, in order."""
        written: dict[str, list[tuple[str, int | None]]] = {}
        for place, values in self._sent.items():
            offsets: Sequence[int | None] = self._offsets[place]
            if len(offsets) != len(values):
                offsets = [None] * len(values)
            written[place] = list(zip(values, offsets, strict=True))
        return written

    def _write(self, *line: Any) -> None:
        os.write(self._file, json.dumps(line).encode() + b"\n")


def _place(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"
