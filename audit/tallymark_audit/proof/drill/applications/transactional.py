"""A transactional producer of the drill: ``python -m
tallymark_audit.proof.drill.applications.transactional CONFIG``, CONFIG being that of
:mod:`.producer` and ``transactional_id``, ``seed`` and ``timeout_ms`` (of a transaction).

It sends for a tenth of a second, then it commits or, one time in three, aborts. Its book is that of
:mod:`.producer`, but ``acked`` are the messages of a transaction whose commit has returned, and::

    ["aborted", partition, sequence]        of one that cannot be committed any more

Of a transaction whose outcome it never learnt nothing is written. When another producer takes its
id it closes, and waits for its end.
"""

from __future__ import annotations

import json
import logging
import random
import sys
import time
import zlib
from pathlib import Path
from threading import Event
from typing import Any, Final, NamedTuple

from tallymark import Producer
from tallymark.clock import now_ms
from tallymark.errors import (
    CommitInDoubt,
    TallymarkError,
    TimedOutError,
    TransactionAbortableError,
    TransactionFatalError,
)
from tallymark.processes.process import configure_logging, die_with_parent, stop_signals
from tallymark_audit.proof.drill.applications.producer import BookWriter, message_value

log: Final = logging.getLogger("drill.transactional")
_STEP_SECONDS: Final = 0.1
_ABORTED_SHARE: Final = 0.33
_CALL_SECONDS: Final = 15.0
_PATIENCE_SECONDS: Final = 120.0
"""How long a call is repeated whose outcome is not known."""
_MOST: Final = 500


class Sent(NamedTuple):
    """A message: its timestamp in ms, and the CRC-32 of its value."""

    partition: int
    sequence: int
    timestamp: int
    crc: int


class Transactions:
    """One transaction after the other; ``counts``: messages handed in, by partition."""

    def __init__(self, producer: Producer, book: BookWriter, config: dict[str, Any]) -> None:
        self.counts = [0] * config["partitions"]
        self._producer = producer
        self._book = book
        self._topic, self._server = config["topic"], config["server"]
        self._chance = random.Random(config["seed"])
        self._open: list[Sent] = []

    def begin(self) -> None:
        """Take the id. TallymarkError: not within two minutes."""
        _repeated(self._producer.init_transactions)

    def one(self, count: int) -> None:
        """A transaction of so many messages. TransactionFatalError: another producer has the id;
        what is aborted by that is written down."""
        aborts = self._chance.random() < _ABORTED_SHARE
        _repeated(lambda _: self._producer.begin_transaction())
        try:
            for number in range(count):
                self._send(number % len(self.counts))
        except TransactionAbortableError:
            aborts = True
        except TransactionFatalError:
            self._write("aborted")
            raise
        except TallymarkError as error:
            log.warning("not taken in: %s", error)
        if not aborts:
            aborts = not self._commit()
        if aborts:
            self._abort()

    def _send(self, partition: int) -> None:
        sequence = self.counts[partition]
        value = message_value(self._server, partition, sequence)
        timestamp = now_ms()
        self._producer.send(self._topic, value, partition=partition, timestamp=timestamp)
        self.counts[partition] += 1
        self._open.append(Sent(partition, sequence, timestamp, zlib.crc32(value)))

    def _commit(self) -> bool:
        """Whether it is committed; False: it has to be aborted."""
        try:
            _repeated(self._producer.commit_transaction)
        except TransactionAbortableError:
            return False
        except TallymarkError:
            self._open.clear()  # its outcome is never learnt
            raise
        self._write("acked")
        return True

    def _abort(self) -> None:
        # Whatever becomes of the call, nothing can commit it any more.
        self._write("aborted")
        _repeated(self._producer.abort_transaction)

    def _write(self, what: str) -> None:
        for one in self._open:
            self._book.write(what, *(one if what == "acked" else one[:2]))
        self._open.clear()


def _repeated(call: Any) -> None:
    """Call until the outcome is known, bounded."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            call(_CALL_SECONDS)
        except (TimedOutError, CommitInDoubt):
            if time.monotonic() > end:
                raise
        else:
            return


def _produce(config: dict[str, Any], stopped: Event) -> Transactions | None:
    """Until it is stopped; None: another producer has taken the id."""
    book = BookWriter(Path(config["book"]))
    with Producer(
        bootstrap_servers=config["bootstrap"],
        client_id=f"drill-{config['server']}",
        server=config["server"],
        transactional_id=config["transactional_id"],
        transaction_timeout_ms=config["timeout_ms"],
    ) as producer:
        work = Transactions(producer, book, config)
        work.begin()
        book.write(
            "run", config["cluster"], config["topic"], config["server"], producer.instance.hex()
        )
        log.info("ready")
        last = time.monotonic()
        try:
            while not stopped.wait(_STEP_SECONDS):
                now = time.monotonic()
                work.one(min(_MOST, max(1, int((now - last) * config["rate"]))))
                last = now
        except TransactionFatalError as error:
            log.info("stopping: %s", error)
            return None
    for partition, count in enumerate(work.counts):
        book.write("sent", partition, count)
    return work


if __name__ == "__main__":
    configure_logging()
    die_with_parent()
    with stop_signals() as stopping:
        if _produce(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), stopping) is None:
            stopping.wait()
