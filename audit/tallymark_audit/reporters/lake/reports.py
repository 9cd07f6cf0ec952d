"""Publishes what the commits of a table brought, on the audit topic of the cluster they are from.

A load calls it after each commit, and at its start for the commits whose reports are not known to
be published. Any number of loads may do so, at once and again: :mod:`.commit_events` says why.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import Any, Final

from tallymark.client import Admin, Producer
from tallymark.client.core.security.deployment import connection_settings
from tallymark.closing import ClosedByWith
from tallymark.deployment import Deployment
from tallymark.errors import TallymarkError, TimedOutError
from tallymark_audit.events.audit_topic import is_too_large, topic_configs
from tallymark_audit.events.event_codec import encode_event
from tallymark_audit.events.events import AuditEvent
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.reporters.lake.commit_events import (
    EventSize,
    TableIdentity,
    events_of,
    recounted_events,
)
from tallymark_audit.reporters.lake.tallies import LakeCommit

REQUEST_MS: Final = 10_000
CLOSING_SECONDS: Final = 1.0
AT_ONCE: Final = 200
"""Events under way: some tens of megabytes."""


class LakeReports(ClosedByWith):
    """The reporter of one table. Connects when there is something to report, and makes the audit
    topic if the cluster has none. ``cluster`` is the one whose topics the table holds, ``table``
    its name in the lake, ``table_id`` and ``created_at`` (ms) what the table itself says. Use
    ``with``, or close it. Not thread-safe."""

    def __init__(
        self, deployment: Deployment, cluster: str, table: str, table_id: str, created_at: int
    ) -> None:
        self._connection = connection_settings(deployment.cluster(cluster))
        self._retention_ms = deployment.audit.retention_ms
        self._who = TableIdentity(
            table, table_id, created_at, socket.gethostname(), deployment.audit.window_ms
        )
        self._size = EventSize()
        self._producer: Producer | None = None

    @property
    def reporter(self) -> str:
        """The name under which the audit knows the table."""
        return self._who.reporter

    def send(
        self, commits: Iterable[LakeCommit], confirmed: int = -1, timeout: float = 60.0
    ) -> int:
        """Publish the reports of these commits, in the order of their versions, each one only when
        all brokers in sync have those before it. Returns the version of the last commit.

        ``confirmed``: what an earlier call returned: the last version that was reported before the
        first of these. -1: there was none, or it is not known, and reports before these are not
        waited for. Versions up to ``confirmed`` are left out. TallymarkError: a report was not
        published within ``timeout`` seconds of its commit's turn; nothing behind it was sent, and
        all of these may be sent again."""
        for commit in commits:
            if commit.version > confirmed:
                self._report(commit, confirmed, timeout)
                confirmed = commit.version
        return confirmed

    def recounted(
        self, parts: Sequence[LakeCommit], reported: int, at: int, timeout: float = 60.0
    ) -> None:
        """Publish what the rows of some cells are now; see
        :func:`~tallymark_audit.reporters.lake.commit_events.recounted_events`. The reports of all
        commits up to ``reported`` have to be published before. TallymarkError: not published within
        ``timeout`` seconds; it may be sent again."""
        self._until_it_fits(
            lambda: recounted_events(self._who, parts, reported, at, self._size), timeout
        )

    def close(self) -> None:
        """Disconnect. What was not acknowledged is given up: it can be sent again."""
        if self._producer is not None:
            with suppress(TallymarkError):
                self._producer.close(timeout=CLOSING_SECONDS)
            self._producer = None

    def _report(self, commit: LakeCommit, after: int, timeout: float) -> None:
        # Kept, since tallies may be read only once, and events too large are made again.
        commit = LakeCommit(
            commit.version, commit.at, tuple(commit.tallies), commit.loaded, commit.gaps
        )
        self._until_it_fits(lambda: events_of(self._who, commit, after, self._size), timeout)

    def _until_it_fits(self, events: Callable[[], Sequence[AuditEvent]], timeout: float) -> None:
        """Publish the events; smaller ones, where the cluster finds them too large."""
        until = time.monotonic() + timeout
        while True:
            try:
                self._publish(events(), until)
            except TallymarkError as error:
                if not is_too_large(error) or self._size == self._size.halved():
                    raise
                self._size = self._size.halved()
            else:
                return

    def _publish(self, events: Sequence[AuditEvent], until: float) -> None:
        for at in range(0, len(events), AT_ONCE):
            sent = [self._send(event) for event in events[at : at + AT_ONCE]]
            done, late = wait(sent, max(0.0, until - time.monotonic()))
            for one in done:
                one.result()
            if late:
                raise TimedOutError(
                    f"{len(late)} reports of {self._who.table} were not acknowledged in time: the "
                    "commit stands, and its reports can be sent again"
                )

    def _send(self, event: AuditEvent) -> Future[Any]:
        key = event.reporter.encode()
        return self._connected().send(AUDIT_TOPIC, encode_event(event), key=key).future()

    def _connected(self) -> Producer:
        if self._producer is None:
            with Admin(**self._connection, request_timeout_ms=REQUEST_MS) as admin:
                admin.create_topic(AUDIT_TOPIC, 1, topic_configs(self._retention_ms))
            self._producer = Producer(
                **self._connection,
                client_id="tallymark-audit-lake",
                audit=False,
                acks="all",
                max_block_ms=REQUEST_MS,
            )
        return self._producer
