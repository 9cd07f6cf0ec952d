"""``/metrics`` of the collectors of one process."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from prometheus_client import Metric

from tallymark.client.core.metrics_page import MetricsPage
from tallymark.client.core.security.http import http_access
from tallymark.deployment import Deployment
from tallymark.errors import UserError
from tallymark.net.addresses import Address
from tallymark_audit.alerts.alerter import Counts
from tallymark_audit.collector.collector import wall_clock
from tallymark_audit.collector.counters import Counters
from tallymark_audit.metrics.metrics import merged, own_families
from tallymark_audit.metrics.source import AuditMetrics
from tallymark_audit.store import open_store

log: Final = logging.getLogger(__name__)


class CollectorStatus(Protocol):
    """The part of a collector that is shown as metrics."""

    @property
    def cluster(self) -> str: ...
    @property
    def counters(self) -> Counters: ...
    @property
    def alert_counts(self) -> Counts: ...


class CollectorMetrics:
    """Serves what the collectors judge and have counted, from construction to ``close``. UserError:
    the port is taken, or the store cannot be opened."""

    def __init__(self, deployment: Deployment, collectors: Sequence[CollectorStatus]) -> None:
        audit = deployment.audit
        self._collectors = collectors
        self._store = open_store(deployment.audit_store)
        try:
            metrics = AuditMetrics(
                self._store, deployment, wall_clock, [one.cluster for one in collectors], self._own
            )
            access = http_access(
                deployment.security,
                "the collector's metrics",
                audit.metrics_host,
                audit.metrics_allow_plaintext,
                "audit.metrics_allow_plaintext = true",
            )
            self.scheme = access.scheme
            self._page = MetricsPage(
                metrics, audit.metrics_host, audit.metrics_port, "collector metrics", access
            )
        except BaseException:
            self._store.close()
            raise

    @property
    def address(self) -> Address:
        """Where they are."""
        return self._page.address

    def close(self) -> None:
        """Serve no more."""
        self._page.close()
        self._store.close()

    def _own(self) -> Iterator[Metric]:
        return merged(
            own_families(one.cluster, one.counters, one.alert_counts) for one in self._collectors
        )


def serve_metrics(
    deployment: Deployment, collectors: Sequence[CollectorStatus]
) -> CollectorMetrics | None:
    """Serve the metrics; None if the settings want none. A port that is in use is reported in the
    log: the collector starts all the same."""
    if deployment.audit.metrics_port < 0:
        return None
    try:
        metrics = CollectorMetrics(deployment, collectors)
    except UserError as error:
        log.warning("there are no metrics: %s", error)
        return None
    log.info("metrics on %s://%s/metrics", metrics.scheme, metrics.address)
    return metrics
