"""The audit in the producer: it reports to the audit topic what was accepted and how it ended.

Every :class:`tallymark.Producer` gets one through the entry point ``tallymark.interceptors``. The
producer calls from its I/O thread, so nothing here waits. An error of the audit never touches the
application's records: reports are kept and sent again, and one log line says so.

A journal keeps the books through ``kill -9``; the next producer on the host, or the host's
collector, publishes it: see :mod:`tallymark_audit.reporters.journal`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tallymark.client.producing.batches.tally import BatchTally
from tallymark.client.producing.interceptors.producer_interceptor import ProducerContext
from tallymark.client.producing.interceptors.transaction_stage import TransactionStage
from tallymark.deployment import Deployment, find_settings, load
from tallymark.errors import TransactionAbortableError, UserError
from tallymark_audit.events.audit_topic import RETENTION_MS
from tallymark_audit.reporters.books.tally_cell import Outcome
from tallymark_audit.reporters.producer.producer_run import ProducerRun, RunSettings, RunTroubles

log: Final = logging.getLogger(__name__)


class AuditInterceptor:
    """Tallies one producer; a
    :class:`tallymark.client.producing.interceptors.producer_interceptor.ProducerInterceptor`.

    Times in ms. ``journal_dir`` None: no journal, so a sudden death loses the last claims. A cell
    keeps ``max_ranges`` ranges; with more it is only counted and hashed. ``content_check``: keys
    and values are hashed too, which costs some 0.4 µs a record."""

    def __init__(
        self,
        window_ms: int = 60_000,
        journal_dir: Path | None = None,
        report_interval_ms: int = 2000,
        skew_ms: int = 86_400_000,
        max_ranges: int = 10_000,
        content_check: bool = False,
        retention_ms: int = RETENTION_MS,
    ) -> None:
        self.settings = RunSettings(
            window_ms,
            journal_dir,
            report_interval_ms,
            skew_ms,
            max_ranges,
            content_check,
            retention_ms,
        )
        self._run: ProducerRun | None = None

    def attach(self, context: ProducerContext) -> None:
        """Begin the books of this run; a forked child is a run of its own."""
        self._run = ProducerRun(context, self.settings)

    def on_send(self, batch: BatchTally) -> None:
        """The batch's records are accepted: they are claimed before their first byte is sent."""
        self.run.accept(batch)

    def on_acknowledged(self, batch: BatchTally, base_offset: int) -> None:
        """The records are in the log; with acks=0 they were only sent, and no more is known."""
        self.run.settle(batch, Outcome.ACKNOWLEDGED)

    def on_failed(self, batch: BatchTally, error: Exception, in_doubt: bool) -> None:
        """The records failed for good, or it is in doubt whether they are in the log."""
        if isinstance(error, TransactionAbortableError):  # nothing can commit them any more
            self.run.settle(batch, Outcome.ABORTED)
        else:
            self.run.settle(batch, Outcome.IN_DOUBT if in_doubt else Outcome.FAILED)

    def on_transaction(self, stage: TransactionStage) -> None:
        """The records since it was OPEN are claimed when it is COMMITTED."""
        self.run.transaction_is(stage)

    def on_split(self, batch: BatchTally, parts: Sequence[BatchTally]) -> None:
        """The batch was too large for the broker: it is sent as ``parts``, each with its end."""
        self.run.split(batch, parts)

    def on_tick(self, now_ms: int, oldest_pending_ms: int | None) -> None:
        """Report if it is time to, with or without changes: a report is a sign of life too."""
        self.run.tick(now_ms, oldest_pending_ms)

    def on_flush(self, now_ms: int, oldest_pending_ms: int | None) -> None:
        """Report what was settled; the application does not wait for the report."""
        self.run.flush(now_ms, oldest_pending_ms)

    def on_close(self, now_ms: int) -> None:
        """The last report. The journal is removed when it has arrived, else the next start
        publishes it."""
        self.run.close(now_ms)

    @property
    def troubles(self) -> RunTroubles:
        """What went wrong with the audit itself so far."""
        return self.run.troubles

    @property
    def run(self) -> ProducerRun:
        """The run that is tallied."""
        if self._run is None:
            raise RuntimeError("the interceptor is not attached to a producer")
        return self._run


def default_interceptor() -> AuditInterceptor:
    """The interceptor of every Producer: with the deployment's settings, else the defaults."""
    try:
        settings = find_settings()
        deployment = load(settings) if settings else Deployment()
    except UserError as error:
        log.warning("audit: the defaults are used, since %s", error)
        settings, deployment = None, Deployment()
    return interceptor_for(deployment, None if settings else state_journal())


def interceptor_for(deployment: Deployment, journal_dir: Path | None = None) -> AuditInterceptor:
    """The interceptor of a deployment; ``journal_dir`` in place of the deployment's folder."""
    return AuditInterceptor(
        window_ms=deployment.audit.window_ms,
        journal_dir=journal_dir or deployment.journal_dir,
        report_interval_ms=deployment.audit.report_interval_ms,
        skew_ms=deployment.audit.skew_ms,
        max_ranges=deployment.audit.max_ranges,
        content_check=deployment.audit.content_check,
        retention_ms=deployment.audit.retention_ms,
    )


def state_journal() -> Path:
    """The folder of journals on a host that has no settings."""
    return Path.home() / ".local" / "state" / "tallymark" / "journal"
