"""A consumer group of the drill, with the audit's hook: ``python -m
tallymark_audit.proof.drill.applications.consumer CONFIG``, CONFIG being JSON: ``bootstrap``,
``topic``, ``group``, ``server`` and ``book`` (file).

Its book is the truth about what the application was given: one JSON array a line, written before
the application asks for more, so a kill takes back at most what was in hand::

    ["member", server]
    ["poll", ms, [[partition, offset, timestamp ms, CRC-32 of the value,
                   partition, server, instance, sequence], ...]]

The first four of a message say where it was read and what it holds, the others who sent it. A poll
that gave nothing is noted after one that gave something: the application has gone beyond that.
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
from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark.client.reading.message import Message
from tallymark.clock import now_ms
from tallymark.processes.process import configure_logging, die_with_parent, stop_signals
from tallymark_audit import ConsumerAudit

log: Final = logging.getLogger("drill.consumer")
_POLL_SECONDS: Final = 0.2
_AT_ONCE: Final = 500
_SESSION_MS: Final = 6_000
"""The shortest that brokers take: after a kill the next member waits for it."""
_START_MS: Final = 60_000
"""The broker may have been killed, too; on a busy machine it takes a while to come back."""


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
            session_timeout_ms=_SESSION_MS,
            start_timeout_ms=_START_MS,
            hooks=[audit],
        ) as consumer,
    ):
        (stream,) = consumer.create_message_streams({config["topic"]: 1})[config["topic"]]
        _write(book, "member", config["server"])
        log.info("ready")
        in_hand = False
        while not stopped.is_set():
            given = list(_rows(stream.poll(_POLL_SECONDS, _AT_ONCE)))
            if given or in_hand:
                _write(book, "poll", now_ms(), given)
            in_hand = bool(given)


def _write(book: int, *row: Any) -> None:
    os.write(book, (json.dumps(row) + "\n").encode())


def _rows(messages: Iterable[Message]) -> Iterable[list[Any]]:
    for message in messages:
        stamp = stamp_of(message.headers)
        if isinstance(stamp, Stamp):
            crc = zlib.crc32(message.value or b"")
            where = [message.partition, message.offset, message.timestamp, crc]
            who = [stamp.partition, stamp.server, stamp.instance.hex(), stamp.sequence]
            yield where + who


if __name__ == "__main__":
    configure_logging()
    die_with_parent()
    _consume(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
