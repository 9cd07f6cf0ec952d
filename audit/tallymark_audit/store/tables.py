"""The tables of the audit store. SQLite for one machine, PostgreSQL for more: the same statements.

Times are ms UTC, offsets and sequences 64-bit. Sets of sequences are JSON lists of ranges, flat:
``[first, last, first, last, ...]``. "window" is the start of a window.

    progress       up to which offset a partition is counted          one row a partition
    observations   what the counter of a cluster saw                  one row a cell and partition
    claims         what reporters said                                one row a cell, reporter, part
    reporters      who said it, and how complete that is              one row a run
    verdicts       the present judgement                              one row a window and source
    watermarks     how far an edge is complete                        one row an edge and topic
    window_changes when a window last changed on a cluster            what the judge looks at
    copied         how far mirrors say they are                       one row a source partition
    lateness       how late records come                              one row an edge, topic, day
    archive        observations and claims of healthy windows, packed one row a window
    totals         how much archived windows hold, by tier            one row a window, hour, day
    alerts         what was told to whom                              one row an alert
    graph          the edges, whenever they changed                   one row a change
    verdict_history, incidents, runs, repairs                         what happened, kept
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
)

SCHEMA_VERSION = 2
metadata = MetaData()


def _big(name: str, default: int = 0) -> Column[int]:
    return Column(name, BigInteger, nullable=False, default=default)


def _text(name: str) -> Column[str]:
    return Column(name, String(255), nullable=False, default="")


def _json(name: str) -> Column[Any]:
    return Column(name, JSON, nullable=False, default=list)


def _flag(name: str) -> Column[bool]:
    return Column(name, Boolean, nullable=False, default=False)


def _id() -> Column[int]:
    # SQLite numbers rows by itself only for the type INTEGER.
    kind = BigInteger().with_variant(Integer, "sqlite")
    return Column("id", kind, primary_key=True, autoincrement=True)


meta = Table("meta", metadata, Column("key", String(64), primary_key=True), _text("value"))

collectors = Table(
    "collectors",
    metadata,
    Column("cluster", String(64), primary_key=True),
    _big("generation"),
    _text("owner"),
    _big("started_at"),
    _big("heartbeat"),
    _big("discovered_through"),
)
"""The collector in charge of a cluster. Whoever starts takes the next generation; what an older
one still writes is refused. ``discovered_through``: up to when it knew every topic there was."""

progress = Table(
    "progress",
    metadata,
    _text("cluster"),
    _text("topic"),
    _big("partition"),
    _text("topic_id"),
    _big("next_offset"),
    _big("leader_epoch", -1),
    _big("generation"),
    _big("counted_through"),
    _big("high_watermark"),
    PrimaryKeyConstraint("cluster", "topic", "partition"),
)
"""``next_offset``: all before it is in ``observations`` (in ``claims``, for the audit topic).
``counted_through``: when it last was at the high watermark."""

observations = Table(
    "observations",
    metadata,
    _text("tier"),
    _text("cluster"),
    _text("topic"),
    _big("window"),
    _big("partition"),
    _text("server"),
    _text("instance"),
    _text("seen_topic"),
    _big("seen_partition"),
    _big("count"),
    _big("bytes"),
    _json("ranges"),
    _json("copies"),
    _json("aborted"),
    _json("blocks"),
    _json("latency"),
    _text("fingerprint"),
    _big("first_offset", -1),
    _big("last_offset", -1),
    _big("min_timestamp", -1),
    _big("max_timestamp", -1),
    _big("malformed"),
    _big("skewed"),
    PrimaryKeyConstraint(
        "cluster",
        "topic",
        "window",
        "tier",
        "partition",
        "server",
        "instance",
        "seen_topic",
        "seen_partition",
    ),
    Index("observations_by_offset", "cluster", "seen_topic", "seen_partition", "last_offset"),
)
"""``topic`` and ``partition`` are the origin's, ``seen_topic`` and ``seen_partition`` where it was
read, whose offsets these are. ``copies``: ``[[partition, offset, sequence], ...]``, bounded.
``blocks``: ``[[block, records, hash], ...]``. ``fingerprint``: hex, where there are no ranges."""

claims = Table(
    "claims",
    metadata,
    _text("cluster"),
    _text("topic"),
    _big("window"),
    _big("partition"),
    _text("reporter"),
    _big("part"),
    _text("tier"),
    _text("server"),
    _text("instance"),
    _big("revision"),
    _big("count"),
    _big("bytes"),
    _json("accepted"),
    _json("acknowledged"),
    _json("failed"),
    _json("in_doubt"),
    _json("aborted"),
    _json("filtered"),
    _json("expired"),
    _json("summary"),
    _json("blocks"),
    _json("latency"),
    _big("duplicates"),
    _big("unstamped"),
    _big("malformed"),
    _big("min_timestamp", -1),
    _big("max_timestamp", -1),
    _big("skewed"),
    _big("acks", -1),
    PrimaryKeyConstraint(
        "cluster", "topic", "window", "partition", "reporter", "server", "instance", "part"
    ),
)
"""What reporters said: producers of what they sent (tier ``producer``), consumers of what their
group processed (tier ``consumer``). ``summary``: ``[accepted, acknowledged, failed, in_doubt,
fingerprint in hex]`` where there are no ranges, else empty."""

reporters = Table(
    "reporters",
    metadata,
    _text("cluster"),
    _text("reporter"),
    _text("kind"),
    _text("tier"),
    _text("server"),
    _text("application"),
    _text("instance"),
    _text("consumer_group"),
    _big("acks", -1),
    _flag("backfill"),
    _big("first_seen"),
    _big("last_heard"),
    _big("covered", -1),
    _big("complete_through"),
    _flag("closed"),
    _big("retired_at"),
    _json("seen"),
    _json("ahead"),
    PrimaryKeyConstraint("cluster", "reporter"),
    Index("reporters_by_instance", "instance"),
)
"""``retired_at``: when a person ended it, 0 if nobody has."""

reporter_topics = Table(
    "reporter_topics",
    metadata,
    _text("cluster"),
    _text("topic"),
    _text("reporter"),
    PrimaryKeyConstraint("cluster", "topic", "reporter"),
)

copied = Table(
    "copied",
    metadata,
    _text("cluster"),
    _text("reporter"),
    _text("topic"),
    _big("partition"),
    _text("target_topic"),
    _text("topic_id"),
    _big("through_offset"),
    _big("records"),
    _big("at"),
    PrimaryKeyConstraint("cluster", "reporter", "topic", "partition"),
)
"""How far a mirror says it has copied; ``cluster`` is its target, ``topic`` and ``partition`` are
upstream's. Everything below ``through_offset`` is downstream or in a gap."""

lateness = Table(
    "lateness",
    metadata,
    _text("edge"),
    _text("topic"),
    _big("day"),
    _json("sketch"),
    PrimaryKeyConstraint("edge", "topic", "day"),
)
"""How long after their stamp records were seen downstream: a flat sketch of ms a day (ms UTC of its
midnight), of which the settle time is learned."""

archive = Table(
    "archive",
    metadata,
    _text("cluster"),
    _text("topic"),
    _big("window"),
    _big("cells"),
    _json("ends"),
    _big("packed_at"),
    Column("packed", LargeBinary, nullable=False, default=b""),
    PrimaryKeyConstraint("cluster", "topic", "window"),
    Index("archive_by_time", "cluster", "packed_at"),
)
"""The observations and claims of a window that is settled and healthy, packed into one row, see
:mod:`tallymark_audit.store.archive`. ``ends``: ``[[partition, last offset], ...]``, of where they
were read."""

detached = Table(
    "detached",
    metadata,
    _text("cluster"),
    _text("topic"),
    _big("partition"),
    _big("at"),
    PrimaryKeyConstraint("cluster", "topic", "partition"),
)
"""When a topic was last made again: offsets in windows that were packed before mean nothing."""

totals = Table(
    "totals",
    metadata,
    _text("cluster"),
    _text("topic"),
    _big("span"),
    _big("start"),
    _text("tier"),
    _big("count"),
    _big("bytes"),
    _json("latency"),
    PrimaryKeyConstraint("topic", "span", "start", "cluster", "tier"),
    Index("totals_by_time", "span", "start"),
)
"""What the archived windows hold, by tier (``producer``, ``cluster``, ``group:<name>``): messages,
each once, their bytes, and a flat sketch of latencies in ms. ``span``: 0 for the window itself,
then what ten minutes, an hour and a day (ms) sum up to."""

alerts = Table(
    "alerts",
    metadata,
    _text("fingerprint"),
    _text("rule"),
    _text("status"),
    _json("labels"),
    _json("annotations"),
    _big("starts_at"),
    _big("ends_at"),
    _text("told"),
    _big("told_at"),
    PrimaryKeyConstraint("fingerprint", "starts_at"),
    Index("alerts_by_status", "status"),
)
"""``status``: pending, firing or resolved, since ``starts_at`` and until ``ends_at`` (ms). ``told``
is what the webhook last took of it, and ``told_at`` when: firing, resolved, empty for nothing yet,
nobody where there was nobody to tell."""

graph = Table(
    "graph",
    metadata,
    _id(),
    _big("valid_from"),
    _json("edges"),
)
"""The edges of the settings, each time they changed: verdicts of before keep the names they had."""

window_changes = Table(
    "window_changes",
    metadata,
    _text("cluster"),
    _text("topic"),
    _big("window"),
    _big("changed_at"),
    PrimaryKeyConstraint("cluster", "topic", "window"),
    Index("window_changes_by_time", "cluster", "changed_at"),
)

SUMS = ("claimed", "observed", "missing", "duplicates", "unclaimed", "explained")
"""The counts of a verdict, in messages."""

verdicts = Table(
    "verdicts",
    metadata,
    _text("edge"),
    _text("topic"),
    _big("window"),
    _text("source"),
    _text("state"),
    _big("revision"),
    _big("judged_at"),
    *[_big(name) for name in SUMS],
    _json("reasons"),
    _json("cells"),
    _text("accepted_by"),
    PrimaryKeyConstraint("edge", "topic", "window", "source"),
    Index("verdicts_by_state", "edge", "state", "window"),
    Index("verdicts_by_window", "window"),
)
"""``source``: collector (provisional) or spark (authoritative). ``cells``: those that are not
simply complete, see :mod:`tallymark_audit.store.rows`. ``accepted_by``: who let it pass."""

verdict_history = Table(
    "verdict_history",
    metadata,
    _text("edge"),
    _text("topic"),
    _big("window"),
    _text("source"),
    _big("revision"),
    _text("state"),
    _big("judged_at"),
    *[_big(name) for name in SUMS],
    _json("reasons"),
    PrimaryKeyConstraint("edge", "topic", "window", "source", "revision"),
)

watermarks = Table(
    "watermarks",
    metadata,
    _text("edge"),
    _text("topic"),
    _big("through"),
    _big("horizon"),
    _json("holes"),
    _big("at"),
    PrimaryKeyConstraint("edge", "topic"),
)
"""``holes``: ``[[window, state, accepted], ...]``, the oldest of them."""

incidents = Table(
    "incidents",
    metadata,
    _id(),
    _text("cluster"),
    _text("topic"),
    _big("partition", -1),
    _big("from_offset", -1),
    _big("to_offset", -1),
    _big("at"),
    _text("kind"),
    _big("count", 1),
    Column("reason", Text, nullable=False, default=""),
)
"""``kind``: truncated, expired, recreated, bad-event, ..., for the offsets from..to, excluded.
``count``: records it happened to, where it may happen again and again."""

runs = Table(
    "runs",
    metadata,
    _id(),
    _text("job"),
    _big("started_at"),
    _big("finished_at"),
    _big("from_ms"),
    _big("to_ms"),
    _text("outcome"),
    _json("detail"),
)

repairs = Table(
    "repairs",
    metadata,
    _id(),
    _big("at"),
    _text("edge"),
    _text("topic"),
    _big("window"),
    _big("partition"),
    _text("server"),
    _text("instance"),
    _json("sequences"),
    _big("copied"),
    _big("present"),
    _text("outcome"),
    Column("reason", Text, nullable=False, default=""),
)
