"""The audit of a consumer group: it reports to the collector what was processed.

For our own connector it is a hook, and the application does nothing more::

    with ConsumerAudit(group="billing", bootstrap_servers="kafka:9092") as audit:
        consumer = ConsumerConnector(group="billing", ..., hooks=[audit])

With any other consumer the application reports each message, and flushes before it commits::

    message = consumer.poll(1.0)
    work(message)
    audit.processed(message)
    ...
    audit.flush()
    consumer.commit()

The group's next run reads again from the committed offsets, and reports that as a run of its own.
The sum of both is right as long as no offset was committed whose records were not reported. The
hook makes sure of that, and so does ``flush()`` before ``commit()``.

The journal of a killed run holds what it had processed and not reported
(:mod:`tallymark_audit.reporters.journal.consumer_layout`). The next run on the host, or the host's
collector, publishes it: what the next member processes again is then DUPLICATION, by name, and what
was in flight is EXPLAINED as perhaps processed twice. Where the journal is lost, everything behind
the last report stays UNKNOWN until the run is retired.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Unpack

from tallymark.client import Producer
from tallymark.client.core.forks import tell_in_child
from tallymark.client.core.security.deployment import connection_settings
from tallymark.client.core.security.security import SecuritySettings
from tallymark.client.producing.settings import server_name
from tallymark.client.producing.stamps import INSTANCE_BYTES
from tallymark.clock import now_ms
from tallymark.closing import ClosedByWith
from tallymark.deployment import Deployment
from tallymark.errors import UserError
from tallymark.protocol.records.columns import RecordColumns
from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.events.events import MAX_TEXT
from tallymark_audit.model.edges import is_audited
from tallymark_audit.model.record_runs import Rules, runs_of_columns
from tallymark_audit.reporters.books.tally import ReporterIdentity
from tallymark_audit.reporters.books.tally_cell import Outcome
from tallymark_audit.reporters.consumer.reporter import ConsumerReporter
from tallymark_audit.reporters.effective_settings import settings_in_force, with_window
from tallymark_audit.reporters.journal.consumer_writer import ConsumerJournal
from tallymark_audit.reporters.processing.messages import consumed_message
from tallymark_audit.reporters.producer.interceptor import state_journal

log: Final = logging.getLogger(__name__)
COMMIT_SECONDS: Final = 2.0
"""How long a commit waits for its report. After that the offsets are committed without one: the
audit must not stop the application, and what was not reported shows as missing."""


class ConsumerAudit(ClosedByWith):
    """One consumer of a group, and a :class:`~tallymark.client.consuming.hooks.ConsumerHook`.

    Where the cluster is: ``bootstrap_servers`` and the ``security`` keywords of every client, or
    ``cluster``, its name in the settings. ``deployment``: the settings, or their file; default: the
    ones in force here. Without settings ``window_ms`` must be the window of the collector (default
    60,000). ``server`` and ``application`` name this consumer in reports. ``journal_dir``: where
    its journal is (default: the deployment's folder, else ~/.local/state/tallymark/journal).

    Every method may be called from any thread, and from asyncio code: only ``flush()`` and
    ``close()`` wait. No message raises an error.
    """

    def __init__(
        self,
        *,
        group: str,
        bootstrap_servers: str | Sequence[str] | None = None,
        cluster: str | None = None,
        deployment: Deployment | str | Path | None = None,
        window_ms: int | None = None,
        server: str | None = None,
        application: str = "",
        journal_dir: str | Path | None = None,
        **security: Unpack[SecuritySettings],
    ) -> None:
        settings = settings_in_force(deployment)
        rules = with_window(settings, window_ms, "ConsumerAudit")
        if not group or len(group) > MAX_TEXT or "\0" in group:
            raise UserError("ConsumerAudit: the group has no name that can be", "give its group id")
        self._window_ms = rules.audit.window_ms
        self._topics = rules.audit.topics
        self._skew_ms = rules.audit.skew_ms
        self._group = group
        self._over = False
        self._late = False
        folder = Path(journal_dir) if journal_dir is not None else _journals(settings)
        self._journal = ConsumerJournal(
            folder,
            _identity(rules, server, application),
            group,
            rules.audit.max_ranges,
            self._skew_ms,
        )
        self._reporter = ConsumerReporter(
            self._journal,
            self._before_report,
            rules.audit.report_interval_ms,
            rules.audit.retention_ms,
            folder,
        )
        self._lock = self._reporter.lock
        where: Any = {"bootstrap_servers": bootstrap_servers, **security}
        if cluster is not None:
            where = _cluster(rules, cluster)
        self._producer = Producer(
            **where,
            client_id=f"audit-{group}"[:MAX_TEXT],
            audit=False,
            interceptors=[self._reporter],
        )
        tell_in_child(self)

    # -- for applications ---------------------------------------------------------------------

    def fetched(self, message: object) -> None:
        """The application has this message and is not done with it: for applications that work on
        many messages at a time. Until it is processed, no report is complete beyond its timestamp.
        Without these calls, messages count as processed in the order of the log."""
        with self._lock:
            found = consumed_message(message)
            if found is not None and self._audits(found.place):
                self._journal.fetched(found)

    def processed(self, message: object) -> None:
        """The application is done with it. A message is one of confluent-kafka, kafka-python,
        aiokafka or our own, or ``(topic, partition, headers, timestamp in ms)``."""
        self._done(message, Outcome.ACKNOWLEDGED)

    def filtered(self, message: object) -> None:
        """The application has skipped the message, on purpose."""
        self._done(message, Outcome.FILTERED)

    def flush(self, timeout: float = COMMIT_SECONDS) -> bool:
        """Report now, and wait at most ``timeout`` seconds until the report is in the cluster;
        returns whether it is. Call it before offsets are committed: records that are committed and
        not reported would show as missing if this process were killed then."""
        with self._lock:
            self._settle()
        return self._over or self._reporter.publish(now_ms(), timeout)

    def close(self, timeout: float = 10.0) -> None:
        """The last report, then the end. Idempotent."""
        with self._lock:
            if self._over:
                return
            self._settle()
            self._over = True
        self._producer.close(timeout)

    # -- for our connector --------------------------------------------------------------------

    def handed_out(self, topic: str, partition: int, columns: RecordColumns) -> None:
        """See :class:`~tallymark.client.consuming.hooks.ConsumerHook`; so with the following."""
        if is_audited(topic, self._topics):
            now = now_ms()
            rules = Rules(self._window_ms, now + self._skew_ms, now - self._skew_ms)
            runs = list(runs_of_columns(columns, topic, partition, rules))
            with self._lock:
                self._journal.handed_out((topic, partition), runs)

    def view(self, topic: str, partition: int) -> memoryview | None:
        """The memory in which the connector notes what the application has in flight, so that it
        survives a sudden death (:mod:`tallymark.client.consuming.marks`)."""
        place = topic, partition
        with self._lock:
            return self._journal.view(place) if self._audits(place) else None

    def done_before(self, positions: Mapping[TopicPartition, int]) -> None:
        """Count what is processed, and wait until its report is in the cluster."""
        now = now_ms()
        with self._lock:
            if self._over:
                return
            mine = {at: to for at, to in positions.items() if self._audits(at)}
            self._journal.done_before(mine, now)
        if not self._reporter.publish(now, COMMIT_SECONDS) and not self._late:
            self._late = True
            log.warning(
                "offsets of the group %s are stored before they are reported: the audit topic "
                "cannot be written. If this process is killed now, what it did shows as missing",
                self._group,
            )

    def released(self, places: Collection[TopicPartition]) -> None:
        """The next consumer of these partitions is given again what is not committed. What of that
        is processed is counted, so that it shows as processed twice."""
        now = now_ms()
        with self._lock:
            for place in places:
                if self._audits(place) and not self._over:
                    self._journal.released(place, now)

    def truncated(self, topic: str, partition: int, offset: int) -> None:
        """What was handed out and is now cut off the log counts as processed."""
        place = topic, partition
        with self._lock:
            if not self._over and self._audits(place):
                self._journal.truncated(place, offset, now_ms())

    def closed(self) -> None:
        """The consumer is closed, and so is its audit."""
        self.close()

    # -- details ------------------------------------------------------------------------------

    def forked(self) -> None:
        """In a forked child: this run belongs to the parent."""
        self._over = True

    def _done(self, message: object, outcome: Outcome) -> None:
        with self._lock:
            found = consumed_message(message)
            if found is None or self._over or not self._audits(found.place):
                return
            self._journal.processed(found, outcome, now_ms())

    def _settle(self) -> None:
        """Count what was acknowledged and is not in the books yet."""
        if self._journal.processing.ack_batcher.is_used:
            self._journal.settle(now_ms())

    def _before_report(self) -> int | None:
        """The reporter calls this before each report: the smallest timestamp (ms) that is not
        processed."""
        if not self._over:
            self._settle()
        return self._journal.processing.oldest

    def _audits(self, place: TopicPartition) -> bool:
        return is_audited(place[0], self._topics)


def _identity(rules: Deployment, server: str | None, application: str) -> ReporterIdentity:
    instance = os.urandom(INSTANCE_BYTES).hex()
    return ReporterIdentity(
        reporter=f"consumer-{instance}",
        server=server_name(server)[:MAX_TEXT],
        application=application[:MAX_TEXT],
        instance=instance,
        window_ms=rules.audit.window_ms,
        started_at=now_ms(),
        kind="consumer",
    )


def _journals(settings: Deployment | None) -> Path:
    return settings.journal_dir if settings is not None else state_journal()


def _cluster(rules: Deployment, name: str) -> Any:
    try:
        return connection_settings(rules.cluster(name))
    except KeyError as error:
        raise UserError(f"ConsumerAudit: {error.args[0]}", "give bootstrap_servers") from error
