"""The tables of counts and claims, and of their totals; see :mod:`.tables`."""

from __future__ import annotations

from sqlalchemy import (
    Column,
    Index,
    LargeBinary,
    PrimaryKeyConstraint,
    String,
    Table,
)

from tallymark_audit.store.schema.columns import big, flag, json, metadata, text

meta = Table("meta", metadata, Column("key", String(64), primary_key=True), text("value"))

collectors = Table(
    "collectors",
    metadata,
    Column("cluster", String(64), primary_key=True),
    big("generation"),
    text("owner"),
    big("started_at"),
    big("heartbeat"),
    big("discovered_through"),
)
"""The collector in charge of a cluster. A collector that starts takes the next generation; what an
older one still writes is refused. ``discovered_through``: up to when it knew every topic there
was."""

progress = Table(
    "progress",
    metadata,
    text("cluster"),
    text("topic"),
    big("partition"),
    text("topic_id"),
    big("next_offset"),
    big("leader_epoch", -1),
    big("generation"),
    big("counted_through"),
    big("high_watermark"),
    big("open_offset", -1),
    big("open_producer", -1),
    big("open_since"),
    big("open_timeout"),
    PrimaryKeyConstraint("cluster", "topic", "partition"),
)
"""``next_offset``: all before it is in ``observations`` (in ``claims``, for the audit topic).
``open_offset``: where a transaction begins that counting waits for, -1: none; of the producer with
the id ``open_producer`` (-1: not known), seen there since ``open_since``; its coordinator ends it
after ``open_timeout`` ms (0: not known).
``counted_through``: when it last was at the high watermark."""

damage = Table(
    "damage",
    metadata,
    text("cluster"),
    text("topic"),
    big("partition"),
    big("from_offset"),
    text("reason"),
    big("since"),
    big("at"),
    big("to_offset", -1),
    big("until", -1),
    big("final"),
    PrimaryKeyConstraint("cluster", "topic", "partition", "from_offset"),
)
"""Offsets from ``from_offset`` up to ``to_offset``, excluded, that cannot be read, and are not
counted; found at ``at``. Windows that ended by ``since`` were counted before, those that begin
later than ``until`` behind. ``final``: 1 when no later reading will find anything else; else the
row goes when they can be read again. ``to_offset`` -1: what an older program left, which went no
further."""

openings = Table(
    "openings",
    metadata,
    text("cluster"),
    text("topic"),
    big("partition"),
    big("minute"),
    big("hour"),
    big("at"),
    big("records"),
    big("refused_at"),
    PrimaryKeyConstraint("cluster", "topic", "partition"),
)
"""What a partition has spent of the cells that it may open, as of ``at``, in units times ms.
``records`` were counted in its overflow cells, the last of them at ``refused_at``."""

observations = Table(
    "observations",
    metadata,
    text("tier"),
    text("cluster"),
    text("topic"),
    big("window"),
    big("partition"),
    text("server"),
    text("instance"),
    text("seen_topic"),
    big("seen_partition"),
    big("count"),
    big("bytes"),
    json("ranges"),
    json("copies"),
    json("aborted"),
    json("blocks"),
    json("latency"),
    text("fingerprint"),
    big("first_offset", -1),
    big("last_offset", -1),
    big("min_timestamp", -1),
    big("max_timestamp", -1),
    big("malformed"),
    big("skewed"),
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
``blocks``: ``[[block, records, hash], ...]``, with the first hash as a fourth number where the
contents are others by now. ``fingerprint``: hex, where there are no ranges."""

claims = Table(
    "claims",
    metadata,
    text("cluster"),
    text("topic"),
    big("window"),
    big("partition"),
    text("reporter"),
    big("part"),
    text("tier"),
    text("server"),
    text("instance"),
    big("revision"),
    big("count"),
    big("bytes"),
    json("accepted"),
    json("acknowledged"),
    json("failed"),
    json("in_doubt"),
    json("aborted"),
    json("filtered"),
    json("expired"),
    json("summary"),
    json("blocks"),
    json("latency"),
    json("again"),
    big("duplicates"),
    big("unstamped"),
    big("malformed"),
    big("min_timestamp", -1),
    big("max_timestamp", -1),
    big("skewed"),
    big("acks", -1),
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
    text("cluster"),
    text("reporter"),
    text("kind"),
    text("tier"),
    text("server"),
    text("application"),
    text("instance"),
    text("consumer_group"),
    big("acks", -1),
    flag("backfill"),
    big("first_seen"),
    big("last_heard"),
    big("covered", -1),
    big("complete_through"),
    flag("closed"),
    big("retired_at"),
    json("seen"),
    json("ahead"),
    PrimaryKeyConstraint("cluster", "reporter"),
    Index("reporters_by_instance", "instance"),
)
"""``retired_at``: when an operator ended it, 0 if it is not ended."""

reporter_topics = Table(
    "reporter_topics",
    metadata,
    text("cluster"),
    text("topic"),
    text("reporter"),
    PrimaryKeyConstraint("cluster", "topic", "reporter"),
)

copied = Table(
    "copied",
    metadata,
    text("cluster"),
    text("reporter"),
    text("topic"),
    big("partition"),
    text("target_topic"),
    text("topic_id"),
    big("through_offset"),
    big("records"),
    big("at"),
    PrimaryKeyConstraint("cluster", "reporter", "topic", "partition"),
)
"""How far a mirror says it has copied; ``cluster`` is its target, ``topic`` and ``partition`` are
upstream's. Everything below ``through_offset`` is downstream or in a gap."""

lateness = Table(
    "lateness",
    metadata,
    text("edge"),
    text("topic"),
    big("day"),
    json("sketch"),
    PrimaryKeyConstraint("edge", "topic", "day"),
)
"""How long after their stamp records were seen downstream: a flat sketch of ms a day (ms UTC of its
midnight), of which the settle time is learned."""

archive = Table(
    "archive",
    metadata,
    text("cluster"),
    text("topic"),
    big("window"),
    big("cells"),
    json("ends"),
    big("packed_at"),
    Column("packed", LargeBinary, nullable=False, default=b""),
    PrimaryKeyConstraint("cluster", "topic", "window"),
    Index("archive_by_time", "cluster", "packed_at"),
)
"""The observations and claims of a window that is settled and healthy, packed into one row, see
:mod:`tallymark_audit.store.counted.archive`. ``ends``: ``[[partition, last offset], ...]``, of
where they were read."""

detached = Table(
    "detached",
    metadata,
    text("cluster"),
    text("topic"),
    big("partition"),
    big("at"),
    PrimaryKeyConstraint("cluster", "topic", "partition"),
)
"""When a topic was last made again: offsets in windows that were packed before mean nothing."""

deleted = Table(
    "deleted",
    metadata,
    text("cluster"),
    text("topic"),
    big("partition"),
    big("at"),
    PrimaryKeyConstraint("cluster", "topic", "partition"),
)
"""Partitions that a cluster had and does not have any more, and when (ms) that was seen."""

totals = Table(
    "totals",
    metadata,
    text("cluster"),
    text("topic"),
    big("span"),
    big("start"),
    text("tier"),
    big("count"),
    big("bytes"),
    json("latency"),
    PrimaryKeyConstraint("topic", "span", "start", "cluster", "tier"),
    Index("totals_by_time", "span", "start"),
)
"""What the archived windows hold, by tier (``producer``, ``cluster``, ``group:<name>``): messages,
each once, their bytes, and a flat sketch of latencies in ms. ``span``: 0 for the window itself,
then what ten minutes, an hour and a day (ms) sum up to."""

window_changes = Table(
    "window_changes",
    metadata,
    text("cluster"),
    text("topic"),
    big("window"),
    big("changed_at"),
    PrimaryKeyConstraint("cluster", "topic", "window"),
    Index("window_changes_by_time", "cluster", "changed_at"),
)

recounts = Table(
    "recounts",
    metadata,
    text("cluster"),
    text("topic"),
    big("partition"),
    text("job"),
    big("first"),
    big("end"),
    big("next_window"),
    big("asked_at"),
    big("bytes"),
    big("windows"),
    big("cells"),
    flag("done"),
    PrimaryKeyConstraint("cluster", "topic", "partition", "job", "first"),
)
"""What the collector of the partition has to count again: the windows that start from ``first`` up
to ``end``, excluded; those before ``next_window`` are done. ``job`` names the origin of the
request. ``bytes`` and ``windows`` were read so far, ``cells`` were not as counted before."""
