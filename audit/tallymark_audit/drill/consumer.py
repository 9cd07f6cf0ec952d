"""A consumer group of the drill, with the audit's hook: ``python -m tallymark_audit.drill.consumer
CONFIG``, CONFIG being JSON: ``bootstrap``, ``topic``, ``group``, ``server`` and ``book`` (file).

Its book is the truth about what the application was given, one JSON array a message: partition and
offset where it was read, timestamp (ms) and CRC-32 of the value, then who sent it: partition,
server, instance, sequence.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tallymark import ConsumerConnector
from tallymark.cli.process import configure_logging, die_with_parent, stop_signals
from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark.client.reading.message import Message
from tallymark_audit import ConsumerAudit

log: Final = logging.getLogger("drill.consumer")
_POLL_SECONDS: Final = 0.2
_AT_ONCE: Final = 500


def _consume(config: dict[str, Any]) -> None:
    book = os.open(config["book"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    where, group = config["bootstrap"], config["group"]
    with (
        stop_signals() as stopped,
        ConsumerAudit(
            group=group, bootstrap_servers=config["straight"], server=config["server"]
        ) as audit,
        ConsumerConnector(
            group=group,
            bootstrap_servers=where,
            client_id=f"drill-{group}",
            auto_commit_interval_ms=500,
            hooks=[audit],
        ) as consumer,
    ):
        (stream,) = consumer.create_message_streams({config["topic"]: 1})[config["topic"]]
        log.info("ready")
        while not stopped.is_set():
            lines = list(_lines(stream.poll(_POLL_SECONDS, _AT_ONCE)))
            if lines:
                os.write(book, "".join(lines).encode())


def _lines(messages: Iterable[Message]) -> Iterable[str]:
    for message in messages:
        stamp = stamp_of(message.headers)
        if isinstance(stamp, Stamp):
            crc = zlib.crc32(message.value or b"")
            where = [message.partition, message.offset, message.timestamp, crc]
            who = [stamp.partition, stamp.server, stamp.instance.hex(), stamp.sequence]
            yield json.dumps(where + who) + "\n"


if __name__ == "__main__":
    configure_logging()
    die_with_parent()
    _consume(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
