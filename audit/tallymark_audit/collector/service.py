"""The collector as a process: counts, judges, names, and publishes what dead producers left."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from tallymark.client import SimpleConsumer
from tallymark.client.security.deployment import connection_settings
from tallymark.deployment import Deployment
from tallymark.errors import TallymarkError, UserError
from tallymark_audit.collector.collector import Collector, CollectorSettings, wall_clock
from tallymark_audit.collector.judge_loop import JudgeLoop
from tallymark_audit.collector.naming import Namer
from tallymark_audit.collector.reading import LogReader
from tallymark_audit.edges import derive_edges
from tallymark_audit.journal.publisher import JournalPublisher
from tallymark_audit.store import open_store
from tallymark_audit.store.counts import FencedError

log: Final = logging.getLogger(__name__)
REQUEST_TIMEOUT_MS: Final = 3000
JUDGE_MS: Final = 1000
ROUND_MS: Final = 200
"""Rounds follow each other no faster while less than a ``TRICKLE`` of records comes in."""
TRICKLE: Final = 5000
REPLAY_MS: Final = 10_000


class CollectorService:
    """Collects one cluster of a deployment in a thread, from the constructor to :meth:`close`."""

    def __init__(self, deployment: Deployment, cluster: str) -> None:
        """UserError: there is no such cluster, or the store cannot be used."""
        try:
            self._cluster = deployment.cluster(cluster)
        except KeyError as error:
            raise UserError(str(error.args[0]), "give --cluster one of them") from error
        self._deployment = deployment
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._readers: dict[str, SimpleConsumer] = {}
        self._store = open_store(deployment.audit_store)
        try:
            self._build()
        except BaseException:
            self._release()
            raise
        self._thread = threading.Thread(target=self._run, name=f"collect {cluster}")
        self._thread.start()

    def check(self) -> None:
        """UserError when the collector has ended by itself, saying why."""
        if self._failure is not None:
            do = "let one collector a cluster run" if isinstance(self._failure, FencedError) else ""
            raise UserError(f"the collector stopped: {self._failure}", do) from self._failure

    def close(self) -> None:
        """Stop after the round under way."""
        self._stopping.set()
        self._thread.join()
        self._release()

    def _build(self) -> None:
        audit, name = self._deployment.audit, self._cluster.name
        edges = derive_edges(self._deployment)
        settings = CollectorSettings(name, audit.window_ms, audit.skew_ms, audit.topics)
        owner = f"{socket.gethostname()}:{os.getpid()}"
        self._collector = Collector(self._store, self._reader_of(name), settings, owner)
        ledger = self._collector.ledger
        self._judges = JudgeLoop(ledger, edges, audit)
        self._namer = Namer(ledger, edges, self._reader_of, audit.window_ms)
        directory: Path = self._deployment.journal_dir
        self._journals = JournalPublisher(connection_settings(self._cluster), directory)
        try:
            self._collector.start()
        except SQLAlchemyError as error:
            raise UserError(f"the audit store cannot be used: {error}") from error

    def _run(self) -> None:
        judge_at = replay_at = 0
        try:
            while not self._stopping.is_set():
                began = wall_clock()
                counted = self._collector.step()
                now = wall_clock()
                if now >= judge_at:
                    judge_at = now + JUDGE_MS
                    self._guarded("judging", lambda: self._judge())
                if now >= replay_at:
                    replay_at = now + REPLAY_MS
                    self._guarded("publishing journals", lambda: self._journals.step(wall_clock()))
                rest = ROUND_MS - (wall_clock() - began) if counted < TRICKLE else 0
                self._stopping.wait(max(0, rest, self._collector.pause_ms) / 1000)
        except BaseException as error:
            self._failure = error
            if not isinstance(error, FencedError):
                log.exception("the collector of %s failed", self._cluster.name)

    def _judge(self) -> None:
        now = wall_clock()
        news = self._judges.step(now)
        self._namer.step(news, now)

    def _guarded(self, what: str, work: Callable[[], object]) -> None:
        """What waits for a store or a cluster that is away is done another time."""
        troubles = self._collector.troubles
        try:
            work()
        except FencedError:
            raise
        except (SQLAlchemyError, TallymarkError) as error:
            troubles.begin(what, f"{what} has to wait: {error}", wall_clock())
        else:
            troubles.end(what)

    def _reader_of(self, cluster: str) -> LogReader:
        if cluster not in self._readers:
            self._readers[cluster] = SimpleConsumer(
                **connection_settings(self._deployment.cluster(cluster)),
                client_id=f"tallymark-audit-{self._cluster.name}",
                request_timeout_ms=REQUEST_TIMEOUT_MS,
            )
        return self._readers[cluster]

    def _release(self) -> None:
        if hasattr(self, "_journals"):
            with suppress(TallymarkError):
                self._journals.close()
        for reader in self._readers.values():
            with suppress(TallymarkError):
                reader.close()
        self._store.close()
