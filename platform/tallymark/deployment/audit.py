"""The shape of the audit's settings: what is counted and how it is judged, kept and reported."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from tallymark.deployment.parts import LOOPBACK, Name, Part
from tallymark.patterns import require_patterns

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class AuditedGroup(Part):
    """A consumer group that is expected to process all of some topics. Groups whose members report
    are found by themselves; one that is named here is also missed when it does not report."""

    cluster: Name
    """The cluster it reads."""
    group: Annotated[str, Field(min_length=1, max_length=255)]
    """Its name."""
    topics: str = ".*"
    """A regular expression on whole names: what it has to process."""


class AlertSettings(Part):
    """Where alerts are sent, and how often."""

    webhook: str = Field(default="", repr=False)
    """Where alerts are posted, in the shape of Alertmanager's webhook; empty: nowhere. ``${NAME}``
    and ``${file:PATH}`` as for ``store``."""
    send_interval_ms: Annotated[int, Field(ge=1000)] = 60_000
    """At most one post in so long, with everything that is new by then."""
    repeat_interval_ms: Annotated[int, Field(ge=1000)] = 4 * HOUR_MS
    """An alert that goes on is sent again after this."""
    missing: Annotated[int, Field(ge=0)] = 0
    """More missing messages than this in one window are an alert."""
    duplicates: Annotated[int, Field(ge=0)] = 0
    """More repeated messages than this in one window are an alert."""
    stalled_ms: Annotated[int, Field(ge=1000)] = 600_000
    """A watermark that has not moved for so long beyond its settle time is an alert."""
    retention_margin_ms: Annotated[int, Field(ge=0)] = HOUR_MS
    """Data that retention deletes in less than this, and that is not mirrored or loaded yet, is an
    alert."""
    console_url: str = ""
    """Where people find the dashboards, for the links in alerts, with the path that a proxy serves
    them below (``https://tallymark.example/audit``); empty: as ``dashboards`` says."""


class AuditSettings(Part):
    """What is counted, in which windows, and how long is waited before judging."""

    window_ms: Annotated[int, Field(ge=1000, le=HOUR_MS)] = 60_000
    """The one window of the deployment: every tier counts in it, so all must agree on it."""
    settle_min_ms: Annotated[int, Field(ge=0)] = 5_000
    """A window is judged no sooner than this after its end."""
    settle_max_ms: Annotated[int, Field(ge=0)] = 900_000
    """And no later, however late records have been seen."""
    report_interval_ms: Annotated[int, Field(ge=100)] = 2_000
    """How often a reporter sends what has changed."""
    silence_ms: Annotated[int, Field(ge=1000)] = 30_000
    """A reporter without any event for so long is silent: its windows are UNKNOWN."""
    hanging_transaction_ms: Annotated[int, Field(ge=1000)] = 1_200_000
    """A transaction that keeps readers of committed records waiting for so long hangs, where no
    coordinator says its own timeout: make it longer than the brokers'
    ``transaction.max.timeout.ms`` (15 minutes) by some minutes. Windows that wait for it are
    UNKNOWN then, and it is an alert."""
    skew_ms: Annotated[int, Field(ge=1000)] = DAY_MS
    """A record stamped further than this from its append time counts as skewed."""
    content_check: bool = False
    """Whether keys and values are hashed, 1,024 sequences a block, so that a changed record is
    found: it costs producers and collectors a hash a record."""
    scrub_rate: Annotated[int, Field(ge=0)] = 0
    """Bytes a second that each collector reads again of what it has counted, to find what was
    damaged since; 0: none. Contents are compared with ``content_check`` only."""
    max_ranges: Annotated[int, Field(ge=100, le=1_000_000)] = 10_000
    """Ranges kept of one cell; one that would need more is only counted and hashed, and its
    verdicts say so."""
    max_new_runs: Annotated[int, Field(ge=0, le=10_000_000)] = 2_000
    """Producer runs a minute that no reporter has announced yet and that open cells in a partition,
    five times as many an hour; records of further ones are only counted, by number. 0: no bound."""
    topics: str = ".*"
    """Which topics are audited; internal ones (leading ``_``) never are."""
    consumers: tuple[AuditedGroup, ...] = ()
    """Consumer groups that have to process all of some topics."""
    collapse_after_ms: Annotated[int, Field(ge=0)] = HOUR_MS
    """A healthy window that has not changed for so long is collapsed to totals."""
    retention_ms: Annotated[int, Field(ge=DAY_MS)] = 35 * DAY_MS
    """How long verdicts and evidence are kept, and what the audit topics' retention is."""
    metrics_host: str = LOOPBACK
    """Where the collectors' ``/metrics`` listen."""
    metrics_port: Annotated[int, Field(ge=-1, le=65535)] = -1
    """Their port; 0: any that is free; -1: there are no metrics."""
    metrics_allow_plaintext: bool = False
    """Whether other machines may reach them without TLS or without a log-in."""
    store: str = Field(default="", repr=False)
    """SQLAlchemy address; empty: SQLite in ``data_dir/audit.db``. ``${NAME}`` stands for a variable
    of the environment, ``${file:PATH}`` for the first line of a file."""
    alerts: AlertSettings = AlertSettings()
    """Where alerts are sent."""

    @model_validator(mode="after")
    def _they_agree(self) -> Self:
        require_patterns("audit", (self.topics, *(one.topics for one in self.consumers)))
        if self.settle_min_ms > self.settle_max_ms:
            raise ValueError("audit: settle_min_ms is greater than settle_max_ms")
        return self
