"""A producer of the drill, to be killed and paused, with a clock of its own.

``python -m tallymark_audit.proof.drill.applications.producer CONFIG``, CONFIG being JSON:
``bootstrap``, ``cluster``, ``topic``, ``partitions``, ``server``, ``rate`` (messages a second),
``offset_ms`` (how wrong its clock is), ``acks`` (``"all"`` or 1), ``book`` (file) and
``patience_ms`` (delivery timeout; 0 for the usual). It runs until SIGTERM, then flushes and ends.

Its book is the truth about what was reported to the application: one JSON array a line, written
when it happened, so a kill takes nothing back::

    ["run", cluster, topic, server, instance]
    ["acked", partition, sequence, timestamp ms, CRC-32 of the value]
    ["sent", partition, sequences handed in]                              at an orderly end

It chooses the partition and counts by itself: the n-th message for a partition has sequence n, and
its value says so, which :mod:`tallymark_audit.proof.drill.truth.books_and_logs`
holds against the stamps.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import zlib
from functools import partial
from pathlib import Path
from typing import Any, Final

from tallymark import Producer
from tallymark.client.producing.delivery import RecordMetadata
from tallymark.clock import now_ms
from tallymark.errors import TallymarkError
from tallymark.processes.process import configure_logging, die_with_parent, stop_signals

log: Final = logging.getLogger("drill.producer")
_STEP_SECONDS: Final = 0.01
_DELIVERY_MS: Final = 120_000
_PADDING: Final = "x" * 60


def message_value(server: str, partition: int, sequence: int) -> bytes:
    """What message number ``sequence`` of a partition holds."""
    return f"{server}:{partition}:{sequence}:{_PADDING}".encode()


class BookWriter:
    """A file of JSON lines that a kill takes nothing of."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, *row: Any) -> None:
        """Append one line."""
        os.write(self._file, (json.dumps(row) + "\n").encode())

    def settled(
        self,
        row: tuple[int, int, int, int],
        error: Exception | None,
        _: RecordMetadata | None,
    ) -> None:
        """Note a message that was acknowledged."""
        if error is None:
            self.write("acked", *row)


def _produce(config: dict[str, Any]) -> None:
    server, topic = config["server"], config["topic"]
    partitions, offset_ms = config["partitions"], config["offset_ms"]
    book = BookWriter(Path(config["book"]))
    counts = [0] * partitions
    with (
        stop_signals() as stopped,
        Producer(
            bootstrap_servers=config["bootstrap"],
            client_id=f"drill-{server}",
            server=server,
            acks=config["acks"],
            max_block_ms=2_000,
            delivery_timeout_ms=config["patience_ms"] or _DELIVERY_MS,
        ) as producer,
    ):
        book.write("run", config["cluster"], topic, server, producer.instance.hex())
        log.info("ready")
        began, sent = time.monotonic(), 0
        while not stopped.wait(_STEP_SECONDS):
            due = int((time.monotonic() - began) * config["rate"]) - sent
            for _ in range(min(due, 1000)):
                partition = sent % partitions
                sequence = counts[partition]
                value = message_value(server, partition, sequence)
                timestamp = now_ms() + offset_ms
                row = (partition, sequence, timestamp, zlib.crc32(value))
                try:
                    producer.send(
                        topic, value, partition=partition, timestamp=timestamp,
                        on_delivery=partial(book.settled, row),
                    )  # fmt: skip
                except TallymarkError as error:
                    log.warning("not taken in: %s", error)
                    break
                counts[partition] += 1
                sent += 1
        log.info("stopping after %d messages", sent)
    for partition, count in enumerate(counts):
        book.write("sent", partition, count)


if __name__ == "__main__":
    configure_logging()
    die_with_parent()
    _produce(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
