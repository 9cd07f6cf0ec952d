"""A copier as a process of its own, which a test may kill, stop or pause at any moment.

``python copier_process.py OPTIONS`` (JSON, see :class:`CopierProcess`) copies a topic until it gets
SIGTERM. It writes a line for each producer that it begins with, and what ended it behind ``!``; its
transactions are in a file of their own (:mod:`copier_journal`).
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from circling import further
from copier_journal import CopierJournal
from older_protocol import use_the_older_protocol

from tallymark import ConsumerConnector, Producer
from tallymark.client import OutgoingRecord
from tallymark.client.reading.message import Message
from tallymark.copying import Copier
from tallymark.errors import TransactionAbortableError, TransactionFatalError
from tallymark.processes.child_process import kill_process

_START_SECONDS: Final = 120


class CopierProcess:
    """``name`` is its transactional id, ``protocol`` 1 or 2, ``aborts`` the part of its
    transactions that it aborts by itself. ``hops``: texts are those of :mod:`circling`, which it
    copies to the other partition until they have gone so far; without, it copies what is there."""

    def __init__(
        self,
        folder: Path,
        name: str,
        servers: str,
        *,
        source: str,
        target: str,
        protocol: int = 2,
        max_records: int = 750,
        aborts: float = 0.0,
        hops: int = 0,
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self.journal = folder / f"{name}.transactions"
        self._options = {
            "name": name,
            "journal": str(self.journal),
            "servers": servers,
            "source": source,
            "target": target,
            "protocol": protocol,
            "max_records": max_records,
            "aborts": aborts,
            "hops": hops,
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it is about to begin: SIGTERM stops it in order from then on."""
        with self.log.open("ab") as log:
            begin = log.tell()
            self._process = subprocess.Popen(
                [sys.executable, __file__, json.dumps(self._options)], stdout=log, stderr=log
            )

        deadline = time.monotonic() + _START_SECONDS
        while b"begins" not in self.log.read_bytes()[begin:]:
            self.check()
            assert time.monotonic() < deadline, self.log.read_text()[-3000:]
            time.sleep(0.02)

    def kill(self) -> None:
        """``kill -9``."""
        assert self._process is not None
        kill_process(self._process)

    def stop(self) -> None:
        """A clean stop: it leaves its group and aborts what is open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(60) == 0, self.log.read_text()[-3000:]

    def pause(self) -> None:
        """It is there, and does nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """The end of :meth:`pause`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def check(self) -> None:
        """It has not ended by itself."""
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()[-3000:]

    def close(self) -> None:
        """Leave nothing running."""
        if self._process is not None:
            kill_process(self._process)


def _main(options: dict[str, Any]) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    for begun in itertools.count():
        if stop.is_set():
            return
        process = f"{options['name']}.{os.getpid()}.{begun}"
        journal = CopierJournal(Path(options["journal"]), process)
        try:
            _copy(options, journal, stop)
        except TransactionFatalError as error:  # its id was taken: as the next process of this id
            print("fenced:", error, flush=True)
        finally:
            journal.close()


def _copy(options: dict[str, Any], journal: CopierJournal, stop: threading.Event) -> None:
    servers = options["servers"]
    # A transaction is aborted at one of its messages, each with the same chance.
    chance = options["aborts"] / options["max_records"]

    def transform(message: Message) -> Iterable[OutgoingRecord]:
        if random.random() < chance:
            raise TransactionAbortableError(options["name"], "aborted for the test")
        text, partition, hops = journal.read(message), message.partition, options["hops"]
        copy = further(text, partition, hops) if hops else (text, partition)
        if copy is None:
            return []
        text, partition = copy
        value = journal.value(options["target"], partition, text)
        return [OutgoingRecord(options["target"], value, None, partition)]

    with (
        ConsumerConnector(
            group="copiers",
            bootstrap_servers=servers,
            enable_auto_commit=False,
            isolation="read_committed",
            session_timeout_ms=2000,
            heartbeat_interval_ms=300,
            fetch_max_wait_ms=50,
        ) as consumer,
        Producer(
            bootstrap_servers=servers,
            transactional_id=options["name"],
            transaction_timeout_ms=10_000,
            retry_backoff_ms=20,
            max_block_ms=20_000,
            interceptors=[journal],
        ) as producer,
    ):
        if options["protocol"] == 1:
            use_the_older_protocol(producer)
        print("begins", flush=True)
        copier = Copier(
            consumer,
            producer,
            options["source"],
            transform,
            max_records=options["max_records"],
        )
        copier.run(stop)


if __name__ == "__main__":
    try:
        _main(json.loads(sys.argv[1]))
    except Exception as error:
        print(f"!{type(error).__name__}: {error}", flush=True)
        raise
