"""Publish orphaned journals to a cluster, from a process that is not a producer of it."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tallymark.client import Admin, Producer
from tallymark.client.core.security.deployment import ConnectionSettings
from tallymark.errors import TallymarkError
from tallymark_audit.events.audit_topic import topic_configs
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.reporters.journal import layout
from tallymark_audit.reporters.journal.orphans import Replay

log: Final = logging.getLogger(__name__)
TIMEOUT_MS: Final = 5000


class JournalPublisher:
    """Publishes the journals of one folder to one cluster. Connects only when there is a journal.
    Makes the audit topic if it is not there, which then keeps reports for ``retention_ms``."""

    def __init__(self, connection: ConnectionSettings, directory: Path, retention_ms: int) -> None:
        self._connection = connection
        self._directory = directory
        self._retention_ms = retention_ms
        self._producer: Producer | None = None
        self._replay: Replay | None = None

    def step(self, now_ms: int) -> int:
        """Publish the orphans; returns of how many runs. TallymarkError: the cluster cannot be
        reached, they stay for another time."""
        if not any(self._directory.glob(f"*{layout.SUFFIX}")):
            return 0
        return self._prepared().start(now_ms)

    def finish(self, timeout: float) -> int:
        """Wait until they are published; returns how many runs were."""
        if self._producer is not None:
            self._producer.flush(timeout)
        return self._replay.replayed if self._replay else 0

    def close(self) -> None:
        """Publish what is under way, and disconnect."""
        if self._producer is not None:
            self._producer.close(timeout=TIMEOUT_MS / 1000)
            self._producer = None

    def _prepared(self) -> Replay:
        if self._replay is None:
            with Admin(**self._connection, request_timeout_ms=TIMEOUT_MS) as admin:
                cluster = admin.cluster_id()
                admin.create_topic(AUDIT_TOPIC, 1, topic_configs(self._retention_ms))
            self._producer = Producer(
                **self._connection,
                client_id="tallymark-audit-journals",
                audit=False,
                max_block_ms=TIMEOUT_MS,
                delivery_timeout_ms=4 * TIMEOUT_MS,
            )
            self._replay = Replay(self._directory, cluster or "", self._publish)
        return self._replay

    def _publish(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int | None
    ) -> Future[Any]:
        assert self._producer is not None, "prepared before it publishes"
        try:
            return self._producer.send(topic, value, key=key, timestamp=timestamp).future()
        except TallymarkError as error:
            failed: Future[Any] = Future()
            failed.set_exception(error)
            return failed


def replay_journals(
    connection: ConnectionSettings, directory: Path, retention_ms: int, now_ms: int
) -> int:
    """Publish every orphan of the folder and wait for it; returns of how many runs."""
    publisher = JournalPublisher(connection, directory, retention_ms)
    try:
        publisher.step(now_ms)
        return publisher.finish(TIMEOUT_MS / 1000)
    finally:
        with suppress(TallymarkError):
            publisher.close()
