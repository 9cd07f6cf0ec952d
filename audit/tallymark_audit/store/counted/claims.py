"""Claims and reporters in the store: what a batch of monitoring events changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, select, update

from tallymark.errors import UserError
from tallymark_audit.events.claim_book import (
    PartKey,
    Reporter,
    Said,
    introduce,
    parts_of,
    replaces,
)
from tallymark_audit.events.events import AuditEvent, Copied
from tallymark_audit.model.absurd import AbsurdError
from tallymark_audit.model.sides import Claim
from tallymark_audit.store.counted import archive
from tallymark_audit.store.counted.counts import touch
from tallymark_audit.store.counted.facts import chunks
from tallymark_audit.store.schema.rows import (
    Row,
    RowLike,
    claim_to_row,
    key_from_row,
    reporter_from_row,
    reporter_to_row,
)
from tallymark_audit.store.schema.tables import claims, copied, reporter_topics, reporters
from tallymark_audit.store.schema.upsert import upsert


def add_events(
    connection: Connection,
    cluster: str,
    events: Iterable[AuditEvent],
    now_ms: int,
    trimmed: bool = False,
) -> None:
    """Take in events in the order of the topic; repeated and reordered ones change nothing.
    ``trimmed``: the topic no longer starts at offset 0."""
    events = list(events)
    if not events:
        return
    known = _save_reporters(connection, cluster, events, trimmed)
    fresh = _fresh_parts(connection, cluster, events)
    tiers = {event.reporter: event.tier for event in events}
    rows = [
        claim_to_row(cluster, part.reporter, part.part, revision, claim, tiers[part.reporter])
        for part, (revision, claim) in fresh.items()
    ]
    upsert(connection, claims, rows)
    publishing = {(part.reporter, part.key.topic) for part in fresh}
    upsert(
        connection,
        reporter_topics,
        [
            {"cluster": cluster, "topic": topic, "reporter": reporter}
            for reporter, topic in sorted(publishing)
        ],
    )
    _save_copied(connection, cluster, events, known)
    touch(connection, cluster, {(part.key.topic, part.key.window) for part in fresh}, now_ms)


def retire(connection: Connection, reporter: str, now_ms: int) -> list[str]:
    """End a reporter that will not return, on every cluster that knows it: its windows no longer
    wait for it. Returns the clusters. UserError: it is not known."""
    known = select(reporters.c.cluster).where(reporters.c.reporter == reporter)
    clusters = [row.cluster for row in connection.execute(known)]
    if not clusters:
        raise UserError(f"no reporter is called {reporter!r}", "see: tallymark audit reporters")
    connection.execute(
        update(reporters).where(reporters.c.reporter == reporter).values(retired_at=now_ms)
    )
    return clusters


def _save_reporters(
    connection: Connection, cluster: str, events: list[AuditEvent], trimmed: bool
) -> dict[str, Reporter]:
    absurd: set[str] = set()
    known = _load_reporters(connection, cluster, {event.reporter for event in events}, absurd)
    for event in events:
        # Of one whose row makes no sense the events of before are not waited for any more.
        reporter = known.get(event.reporter) or introduce(
            event, trimmed or event.reporter in absurd
        )
        known[event.reporter] = reporter.heard(event)
    rows = [reporter_to_row(cluster, reporter) for reporter in known.values()]
    upsert(connection, reporters, rows)
    return known


def _save_copied(
    connection: Connection,
    cluster: str,
    events: Iterable[AuditEvent],
    known: Mapping[str, Reporter],
) -> None:
    """Store the newest report of each reporter on each partition
    (:func:`~tallymark_audit.events.claim_book.replaces`); an older one changes nothing. Of equal
    reports the first one holds, so a repeated report does not make its messages wait for another
    count. A report with a missing part is not used: the work it covers may be in that part."""
    told = [event for event in events if event.event_number <= known[event.reporter].covered]
    of = {event.reporter for event in told if event.copied}
    query = select(copied).where(copied.c.cluster == cluster, copied.c.reporter.in_(of))
    have: dict[tuple[str, str, int], Row] = {
        (row["reporter"], row["topic"], row["partition"]): dict(row)
        for row in (connection.execute(query).mappings() if of else ())
    }
    fresh: dict[tuple[str, str, int], Row] = {}
    for event in told:
        for one in event.copied:
            place = event.reporter, one.topic, one.partition
            row = {"cluster": cluster, "reporter": event.reporter, "at": event.emitted_at}
            row |= {name: getattr(one, name) for name in Copied.__slots__}
            if place not in have or replaces(event.kind, _said(have[place]), _said(row)):
                have[place] = fresh[place] = row
    upsert(connection, copied, fresh.values())


def _said(row: Row) -> Said:
    return Said(row["at"], row["through_offset"], row["topic_id"])


def _load_reporters(
    connection: Connection, cluster: str, names: set[str], absurd: set[str]
) -> dict[str, Reporter]:
    """Those that are known; ``absurd`` takes the names of those whose row makes no sense."""
    found: dict[str, Reporter] = {}
    for some in chunks(sorted(names)):
        query = select(reporters).where(
            reporters.c.cluster == cluster, reporters.c.reporter.in_(some)
        )
        for row in connection.execute(query).mappings():
            try:
                found[row["reporter"]] = reporter_from_row(row)
            except AbsurdError:
                absurd.add(row["reporter"])
    return found


def _fresh_parts(
    connection: Connection, cluster: str, events: list[AuditEvent]
) -> Mapping[PartKey, tuple[int, Claim]]:
    """The parts of which the events have a higher revision than the store."""
    told: dict[PartKey, tuple[int, Claim]] = {}
    for event in events:
        for part, revision, claim in parts_of(event):
            if part not in told or revision > told[part][0]:
                told[part] = revision, claim
    have = _revisions(connection, cluster, told)
    return {part: news for part, news in told.items() if news[0] > have.get(part, -1)}


def _revisions(
    connection: Connection, cluster: str, parts: Iterable[PartKey]
) -> dict[PartKey, int]:
    wanted: dict[str, set[int]] = {}
    names: dict[str, set[str]] = {}
    for part in parts:
        wanted.setdefault(part.key.topic, set()).add(part.key.window)
        names.setdefault(part.key.topic, set()).add(part.reporter)
    columns = [claims.c[name] for name in ("reporter", "part", "revision")]
    keys = [claims.c[name] for name in ("topic", "partition", "window", "server", "instance")]
    found: dict[PartKey, int] = {}
    for topic, windows in wanted.items():
        for some in chunks(sorted(windows)):
            query = select(*columns, *keys).where(
                claims.c.cluster == cluster, claims.c.topic == topic, claims.c.window.in_(some)
            )
            if len(names[topic]) <= 100:
                query = query.where(claims.c.reporter.in_(sorted(names[topic])))
            rows: list[RowLike] = list(connection.execute(query).mappings())
            rows += archive.packed_rows(connection, claims, cluster, topic, some, set())
            for row in rows:
                part = PartKey(row["reporter"], key_from_row(row), row["part"])
                found.setdefault(part, row["revision"])
    return found
