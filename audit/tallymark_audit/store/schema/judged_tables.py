"""The tables of verdicts, alerts and repairs; see :mod:`.tables`."""

from __future__ import annotations

from sqlalchemy import (
    Column,
    Index,
    PrimaryKeyConstraint,
    Table,
    Text,
)

from tallymark_audit.store.schema.columns import big, json, metadata, numbered, text

graph = Table(
    "graph",
    metadata,
    numbered(),
    big("valid_from"),
    json("edges"),
)
"""The edges of the settings, each time they changed: verdicts of before keep the names they had."""

SUMS = ("claimed", "observed", "missing", "duplicates", "unclaimed", "explained")
"""The counts of a verdict, in messages."""

verdicts = Table(
    "verdicts",
    metadata,
    text("edge"),
    text("topic"),
    big("window"),
    text("source"),
    text("state"),
    big("revision"),
    big("judged_at"),
    *[big(name) for name in SUMS],
    json("reasons"),
    json("cells"),
    text("accepted_by"),
    PrimaryKeyConstraint("edge", "topic", "window", "source"),
    Index("verdicts_by_state", "edge", "state", "window"),
    Index("verdicts_by_window", "window"),
)
"""``source``: collector (provisional) or spark (authoritative). ``cells``: those that are not
simply complete, see :mod:`tallymark_audit.store.schema.rows`. ``accepted_by``: the operator that
accepted it."""

verdict_history = Table(
    "verdict_history",
    metadata,
    text("edge"),
    text("topic"),
    big("window"),
    text("source"),
    big("revision"),
    text("state"),
    big("judged_at"),
    *[big(name) for name in SUMS],
    json("reasons"),
    PrimaryKeyConstraint("edge", "topic", "window", "source", "revision"),
)

watermarks = Table(
    "watermarks",
    metadata,
    text("edge"),
    text("topic"),
    big("through"),
    big("horizon"),
    json("holes"),
    big("at"),
    PrimaryKeyConstraint("edge", "topic"),
)
"""``holes``: ``[[window, state, accepted], ...]``, the oldest of them."""

incidents = Table(
    "incidents",
    metadata,
    numbered(),
    text("cluster"),
    text("topic"),
    big("partition", -1),
    big("from_offset", -1),
    big("to_offset", -1),
    big("at"),
    text("kind"),
    big("count", 1),
    Column("reason", Text, nullable=False, default=""),
    Index("incidents_by_time", "cluster", "topic", "kind", "partition", "at"),
    Index(
        "incidents_by_offset", "cluster", "topic", "kind", "partition", "from_offset", "to_offset"
    ),
)
"""``kind``: truncated, expired, recreated, bad-event, ..., for the offsets from..to, excluded.
``count``: records it happened to, where it may happen again and again."""

alerts = Table(
    "alerts",
    metadata,
    text("fingerprint"),
    text("rule"),
    text("status"),
    json("labels"),
    json("annotations"),
    big("starts_at"),
    big("ends_at"),
    text("told"),
    big("told_at"),
    PrimaryKeyConstraint("fingerprint", "starts_at"),
    Index("alerts_by_status", "status"),
    Index("alerts_by_start", "starts_at"),
)
"""``status``: pending, firing or resolved, since ``starts_at`` and until ``ends_at`` (ms). ``told``
is the last status that the webhook accepted, and ``told_at`` when: firing, resolved, empty if there
is none yet, and nobody if there was no webhook or a pause."""

runs = Table(
    "runs",
    metadata,
    numbered(),
    text("job"),
    big("started_at"),
    big("finished_at"),
    big("from_ms"),
    big("to_ms"),
    text("outcome"),
    json("detail"),
)

repairs = Table(
    "repairs",
    metadata,
    numbered(),
    big("at"),
    text("edge"),
    text("topic"),
    big("window"),
    big("partition"),
    text("server"),
    text("instance"),
    json("sequences"),
    big("copied"),
    big("present"),
    text("outcome"),
    Column("reason", Text, nullable=False, default=""),
    Index("repairs_by_window", "edge", "topic", "window"),
)

decisions = Table(
    "decisions",
    metadata,
    numbered(),
    big("at"),
    big("finished_at"),
    text("who"),
    text("host"),
    text("process"),
    text("action"),
    text("edge"),
    text("topic"),
    big("window", -1),
    big("window_end", -1),
    text("subject"),
    Column("note", Text, nullable=False, default=""),
    text("outcome"),
    json("detail"),
    Index("decisions_by_time", "at"),
    Index("decisions_by_window", "edge", "topic", "window"),
)
"""What a person decided or started, and the person. ``action``: accept, withdraw (an acceptance),
retire, pause, resume, repair. ``edge`` and ``topic`` are empty, and ``window`` and ``window_end``
(excluded) -1, where it is not about one. ``subject``: the reporter that was retired.
``finished_at``: 0 while a repair goes on; ``outcome`` is how it ended. ``detail``: an object, of a
repair its counts and reasons, of a pause its end."""
