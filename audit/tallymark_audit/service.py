"""The collector as a process: counts, judges, names, and publishes what dead producers left."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from tallymark.client import Admin, SimpleConsumer
from tallymark.client.core.security.deployment import connection_settings
from tallymark.deployment import Deployment
from tallymark.errors import TallymarkError, UserError
from tallymark_audit.alerts.alerter import Alerter, Counts
from tallymark_audit.collector.collector import Collector, CollectorSettings, wall_clock
from tallymark_audit.collector.counters import Counters
from tallymark_audit.collector.judging.judge_loop import JudgeLoop
from tallymark_audit.collector.judging.naming import Namer
from tallymark_audit.collector.partitions.compacted import is_compacted
from tallymark_audit.collector.partitions.group_member import GroupMember
from tallymark_audit.collector.replication_incidents import ReplicationIncidents
from tallymark_audit.collector.schedule import Chore, Doing, Schedule
from tallymark_audit.collector.transaction_timeouts import TransactionTimeouts
from tallymark_audit.model.compiled_runs.cutter import warm
from tallymark_audit.model.edges import derive_edges
from tallymark_audit.model.log_reader import LogReader
from tallymark_audit.reporters.journal.publisher import JournalPublisher
from tallymark_audit.store import open_store
from tallymark_audit.store.counted.positions import FencedError
from tallymark_audit.store.housekeeping.housekeeper import Housekeeper

log: Final = logging.getLogger(__name__)
REQUEST_TIMEOUT_MS: Final = 3000
JUDGE_MS: Final = 1000
LONGEST_JUDGE_MS: Final = 2000
ROUND_MS: Final = 200
TRICKLE: Final = 5000
"""Rounds follow each other no faster while fewer records than this come in and all that there is
was read: monitoring events are no records, and large ones fill a round with some dozens."""
REPLAY_MS: Final = 10_000
STATUS_MS: Final = 60_000
SESSION_MS: Final = 10_000
"""A collector that is silent for so long has lost its partitions to the others."""


def judge_every_ms(window_ms: int) -> int:
    """How often to look for windows to judge: a thirtieth of a window, within bounds."""
    return min(max(JUDGE_MS, window_ms // 30), LONGEST_JUDGE_MS)


def one_round(
    collector: Collector, do_chores: Callable[[bool], object], clock: Callable[[], int]
) -> int:
    """Count what has arrived, then do the chores. Chores that take long rest while there is more to
    count than a round takes, since verdicts need those counts first. Returns how long to wait
    before the next round, ms. ``clock`` in ms."""
    began = clock()
    counted = collector.step()
    busy = counted >= TRICKLE or collector.behind
    do_chores(busy)
    rest = 0 if busy else ROUND_MS - (clock() - began)
    return max(0, rest, collector.pause_ms)


class CollectorService:
    """Collects one cluster of a deployment in a thread, from the constructor to :meth:`close`,
    together with the other collectors of the cluster if there are any."""

    def __init__(self, deployment: Deployment, cluster: str, session_ms: int = SESSION_MS) -> None:
        """``session_ms``: how long the others wait for it when it is silent. UserError: there is no
        such cluster, or the store cannot be used."""
        try:
            self._cluster = deployment.cluster(cluster)
        except KeyError as error:
            raise UserError(str(error.args[0]), "give --cluster one of them") from error
        self._deployment = deployment
        self._session_ms = session_ms
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._readers: dict[str, SimpleConsumer] = {}
        self._admin: Admin | None = None
        self._client_id = f"tallymark-audit-{cluster}"
        self._store = open_store(deployment.audit_store)
        try:
            self._build()
        except BaseException:
            self._release()
            raise
        # Until that is done, and where nothing can be compiled, the pure path counts.
        threading.Thread(target=warm, name="tallymark-warm", daemon=True).start()
        self._thread = threading.Thread(target=self._run, name=f"collect {cluster}")
        self._thread.start()

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        return self._cluster.name

    @property
    def counters(self) -> Counters:
        """What it has done so far."""
        return self._collector.counters

    @property
    def alert_counts(self) -> Counts:
        """How many alerts the alerter has posted so far."""
        return self._alerter.counts

    def check(self) -> None:
        """UserError when the collector has ended by itself, saying why."""
        if self._failure is not None:
            raise UserError(f"the collector stopped: {self._failure}") from self._failure

    def close(self) -> None:
        """Stop after the round under way."""
        self._stopping.set()
        self._thread.join()
        self._release()

    def _build(self) -> None:
        audit, name = self._deployment.audit, self._cluster.name
        connection = connection_settings(self._cluster)
        settings = CollectorSettings(
            name,
            audit.window_ms,
            audit.skew_ms,
            audit.topics,
            content_check=audit.content_check,
            max_ranges=audit.max_ranges,
            max_new_runs=audit.max_new_runs,
            scrub_rate=audit.scrub_rate,
            settled_ms=audit.window_ms + audit.settle_max_ms,
        )
        folder = self._deployment.journal_dir
        self._journals = JournalPublisher(connection, folder, audit.retention_ms)
        reader = self._reader_of(name)
        sharing = GroupMember(connection, name, audit.topics, self._session_ms)
        owner = f"{socket.gethostname()}:{os.getpid()}"
        self._collector = Collector(
            self._store,
            reader,
            settings,
            owner,
            sharing=sharing,
            compacted=self._is_compacted,
            timeout_of=TransactionTimeouts(self._opened_admin).of,
        )
        troubles = self._collector.troubles
        self._alerter = Alerter(self._collector.ledger, self._deployment)
        self._everywhere = Schedule(self._chores_of_every_collector(), troubles)
        self._in_charge = Schedule(self._chores_of_the_one_in_charge(), troubles)
        self._judge_as(0)

    def _chores_of_every_collector(self) -> list[Chore]:
        return [
            Doing("publishing journals", REPLAY_MS, self._journals.step),
            Doing("reporting its status", STATUS_MS, self._log_status),
            self._collector.recounting,
            self._collector.mending,
        ]

    def _chores_of_the_one_in_charge(self) -> list[Chore]:
        edges = derive_edges(self._deployment)
        return [
            Doing("judging", judge_every_ms(self._deployment.audit.window_ms), self._judge),
            Housekeeper(self._collector.ledger, edges, self._deployment.audit),
            self._alerter,
            ReplicationIncidents(
                self._reader_of(self._cluster.name),
                self._collector.ledger,
                self._deployment.audit.retention_ms,
            ),
        ]

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                pause_ms = one_round(self._collector, self._do_chores, wall_clock)
                self._stopping.wait(pause_ms / 1000)
        except BaseException as error:
            self._failure = error
            log.exception("the collector of %s failed", self._cluster.name)

    def _do_chores(self, busy: bool) -> None:
        try:
            self._everywhere.step(wall_clock, busy)
            if self._collector.in_charge:
                self._in_charge.step(wall_clock, busy)
        except FencedError as error:
            self._collector.fenced(error)

    def _judge(self, now: int) -> None:
        if self._judging_as != self._collector.ledger.generation:
            self._judge_as(self._collector.ledger.generation)
        news = self._judges.step(now, hurry=self._collector.behind)
        self._namer.step(news, now)

    def _judge_as(self, generation: int) -> None:
        """Begin to judge. Another collector may have judged in the meantime, so what is due is read
        from the store."""
        ledger, audit = self._collector.ledger, self._deployment.audit
        edges = derive_edges(self._deployment)
        self._judging_as = generation
        self._judges = JudgeLoop(ledger, edges, audit)
        self._namer = Namer(ledger, edges, self._reader_of, audit.window_ms)

    def _log_status(self, now: int) -> None:
        if self.counters.commits:
            log.info("%s: %s", self._cluster.name, self.counters.status())

    def _reader_of(self, cluster: str) -> LogReader:
        if cluster not in self._readers:
            self._readers[cluster] = SimpleConsumer(
                **connection_settings(self._deployment.cluster(cluster)),
                client_id=self._client_id,
                request_timeout_ms=REQUEST_TIMEOUT_MS,
                isolation="read_committed",
            )
        return self._readers[cluster]

    def _is_compacted(self, topic: str) -> bool:
        if self._admin is None:
            self._admin = Admin(**connection_settings(self._cluster), client_id=self._client_id)
        return is_compacted(self._admin, topic)

    def _opened_admin(self) -> Admin:
        """For one call, in a thread of its own."""
        connection = connection_settings(self._cluster)
        timeout = REQUEST_TIMEOUT_MS
        return Admin(**connection, client_id=self._client_id, request_timeout_ms=timeout)

    def _release(self) -> None:
        if hasattr(self, "_collector"):
            with suppress(TallymarkError, SQLAlchemyError):
                self._collector.close()
        if hasattr(self, "_journals"):
            with suppress(TallymarkError):
                self._journals.close()
        for client in (*self._readers.values(), *([self._admin] if self._admin else [])):
            with suppress(TallymarkError):
                client.close()
        self._store.close()
