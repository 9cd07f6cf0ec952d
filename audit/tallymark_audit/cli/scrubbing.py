"""``tallymark audit scrub``: have what was counted long ago counted again, and see what comes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click
from rich.table import Table
from sqlalchemy import Connection, select

from tallymark.deployment import AuditSettings, Deployment, load
from tallymark.errors import UserError
from tallymark.patterns import pattern_given
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.shell.output import print_line, print_table
from tallymark.shell.progress import Meter, progress
from tallymark.shell.target import clusters_named
from tallymark.untrusted import command
from tallymark_audit.cli import options
from tallymark_audit.collector.collector import wall_clock
from tallymark_audit.collector.judging.window_facts import topics_known
from tallymark_audit.collector.recounting.chore import UNREADABLE
from tallymark_audit.judge.hops import hops_into
from tallymark_audit.judge.states import GOOD, UNDECIDED, State
from tallymark_audit.model.edges import derive_edges, discovered_group, is_audited
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.counted import deleted, positions, recounts
from tallymark_audit.store.counted.groups import groups_on
from tallymark_audit.store.counted.recounts import RecountRequest
from tallymark_audit.store.reading import queries
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.store.schema.tables import incidents, window_changes
from tallymark_audit.tables import plain, verdict_table

DISCREPANCIES, UNDECIDED_YET = 3, 4
"""Exit codes, as ``tallymark reconcile`` has them."""
ALIVE_MS: Final = 30_000
"""A collector that was in charge of a cluster so short a while ago still is."""
EVERY_S: Final = 0.5
MOST: Final = 100_000
LATER: Final = frozenset({State.OPEN, State.SETTLING})


@dataclass(frozen=True, slots=True)
class Scrub:
    """One scrub: the requests of ``job``, by cluster, for windows from ``start`` up to ``end``."""

    job: str
    asked_at: int
    start: int
    end: int
    wanted: tuple[tuple[str, RecountRequest], ...]
    names: Mapping[tuple[str, str], frozenset[tuple[str, str]]]
    """By cluster and topic: the edge and topic of the verdicts that rest on it."""

    @property
    def topics(self) -> set[str]:
        """As the clusters call them."""
        return {request.topic for _, request in self.wanted}


@click.command()
@options.settings
@click.option("--cluster", "clusters", multiple=True, help="Only this cluster; may be repeated.")
@options.bootstrap
@click.option("-t", "--topic", metavar="REGEX", help="Only topics whose whole name matches.")
@options.period
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=3600.0,
    show_default=True,
    help="Seconds to wait at most.",
)
@options.as_json
def scrub(
    settings: str | None,
    clusters: tuple[str, ...],
    bootstraps: tuple[str, ...],
    topic: str | None,
    start: int | None,
    end: int | None,
    timeout: float,
    as_json: bool,
) -> None:
    """Read again what was counted, and judge what is not as it was.

    The collectors do it, each in the partitions that it counts, beside counting on: stamps, counts
    and, with audit.content_check, contents are compared with what was counted first. Without --from
    and --to: all that has settled. Exits with 0 when all is complete, 3 with discrepancies, 4 when
    something cannot be decided or read, 1 on an error.
    """
    deployment, deadline = load(settings), time.monotonic() + timeout
    with open_store(deployment.audit_store) as store:
        named = clusters_named(deployment, clusters, bootstraps)
        made = plan(store, deployment, named, topic, (start, end))
        try:
            done = _carry_out(store, made, deadline, quiet=as_json)
        finally:
            with store.write() as connection:
                recounts.forget_job(connection, made.job)
        rows = _wait_for_verdicts(store, made, deployment.audit, deadline)
        unread = _unread(store, made)
    left = [request for _, request in done if not request.done]
    _show(made, done, rows, unread, as_json)
    states = {State(row["state"]) for row in rows}
    if states - GOOD - UNDECIDED:
        raise click.exceptions.Exit(DISCREPANCIES)
    if states & UNDECIDED or left or unread:
        raise click.exceptions.Exit(UNDECIDED_YET)


def plan(
    store: Store,
    deployment: Deployment,
    clusters: Sequence[str],
    topic: str | None,
    period: tuple[int | None, int | None],
) -> Scrub:
    """What to ask for. UserError: a cluster that is not there, or has no collector; a topic that
    was never counted."""
    now, audit = wall_clock(), deployment.audit
    known = [one.name for one in deployment.clusters]
    for name in clusters:
        if name not in known:
            raise UserError(f"there is no cluster {name!r}", f"there are: {', '.join(known)}")
    chosen = [name for name in known if name in clusters or not clusters]
    settled = now - audit.window_ms - audit.settle_min_ms + 1
    start = recounts.FIRST if period[0] is None else period[0]
    end = settled if period[1] is None else min(period[1], settled)
    job = f"scrub {now}"
    wanted = [
        (name, RecountRequest(*place, job, start, end, start, now))
        for name in chosen
        for place in _places(store, name, audit, topic)
    ]
    if topic is not None and not wanted:
        raise UserError(
            f"no topic that was counted matches {topic!r} as a whole",
            "see: tallymark audit overview",
        )
    with store.read() as connection:
        for name in sorted({name for name, _ in wanted}):
            if now - positions.last_in_charge(connection, name) > ALIVE_MS:
                raise UserError(
                    f"no collector of {name} is running, and it is the collectors that read again",
                    "start one: " + command("tallymark audit collect", cluster=name),
                )
        found = {(name, one.topic) for name, one in wanted}
        names = {place: _judged_as(connection, deployment, *place) for place in sorted(found)}
    return Scrub(job, now, start, end, tuple(wanted), names)


def _judged_as(
    connection: Connection, deployment: Deployment, cluster: str, topic: str
) -> frozenset[tuple[str, str]]:
    """On which edges a cluster's topic is judged, and as what."""
    edges = derive_edges(deployment)
    found = [
        (hop.edge.name, name)
        for home in deployment.clusters
        for hop in hops_into(edges, home.name)
        if cluster in (hop.edge.upstream, hop.edge.downstream)
        for name in hop.topics_of(cluster, topic, topics_known(connection, hop))
    ]
    groups = [
        (discovered_group(cluster, group, read).name, topic)
        for group, read in groups_on(connection, cluster).items()
        if topic in read
    ]
    return frozenset([*found, *groups])


def _places(
    store: Store, cluster: str, audit: AuditSettings, topic: str | None
) -> Iterator[TopicPartition]:
    pattern = pattern_given("--topic", topic or ".*")
    with store.read() as connection:
        known = positions.load_positions(connection, cluster)
        gone = deleted.deleted_places(connection, cluster)
    for position in known:
        audited = is_audited(position.topic, audit.topics) and position.place not in gone
        if audited and pattern.fullmatch(position.topic):
            yield position.place


def _carry_out(
    store: Store, made: Scrub, deadline: float, quiet: bool
) -> list[tuple[str, RecountRequest]]:
    """Ask, and wait until all is read or the time is over; how far each request has come then."""
    by_cluster: dict[str, list[RecountRequest]] = {}
    for cluster, request in made.wanted:
        by_cluster.setdefault(cluster, []).append(request)
    with store.write() as connection:
        for cluster, requests in by_cluster.items():
            recounts.ask(connection, cluster, requests)
    with progress("scrub", len(made.wanted), quiet=quiet) as meter:
        while True:
            with store.read() as connection:
                found = [
                    (cluster, request)
                    for cluster in by_cluster
                    for request in recounts.of_job(connection, made.job, cluster)
                ]
            _tick(meter, [request for _, request in found])
            if all(request.done for _, request in found) or time.monotonic() >= deadline:
                return found
            time.sleep(EVERY_S)


def _tick(meter: Meter, requests: Sequence[RecountRequest]) -> None:
    done = sum(request.done for request in requests)
    windows, size = sum(one.windows for one in requests), sum(one.bytes for one in requests)
    changed = sum(one.cells for one in requests)
    text = (
        f"{done} of {len(requests)} partitions, {windows:,} windows, {size / 1e6:,.1f} MB, "
        f"{changed:,} cells not as they were counted"
    )
    meter.tick(lambda: (done, text))


def _wait_for_verdicts(
    store: Store, made: Scrub, audit: AuditSettings, deadline: float
) -> list[Row]:
    """The verdicts of what was read, once those of the windows that changed are made anew."""
    # A changed count need not change a verdict, and nothing reports that: wait so long, no more.
    patience = time.monotonic() + (audit.settle_min_ms + audit.window_ms) / 1000 + 20
    judged_as = {one for names in made.names.values() for one in names}
    while True:
        changed = _changed(store, made)
        with store.read() as connection:
            rows = [
                row
                for edge, topic in sorted(judged_as)
                for row in queries.windows(
                    connection, edge, topic, made.start, made.end, limit=MOST
                )
            ]
        by_place = {(row["edge"], row["topic"], row["window"]): row for row in rows}
        waiting = any(
            not _is_judged(
                [
                    row
                    for one in made.names[cluster, topic]
                    if (row := by_place.get((*one, window)))
                ],
                made.asked_at,
            )
            for cluster, topic, window in changed
        )
        if not waiting or time.monotonic() >= min(deadline, patience):
            return rows
        time.sleep(EVERY_S)


def _is_judged(rows: Sequence[Row], since: int) -> bool:
    """Whether a window whose count changed was judged anew, and may be believed."""
    anew = any(row["judged_at"] >= since for row in rows)
    return anew and not any(row["state"] in LATER for row in rows)


def _changed(store: Store, made: Scrub) -> list[tuple[str, str, int]]:
    """The windows whose counts changed since it was asked: cluster, topic, start."""
    changes = window_changes.c
    query = select(changes.cluster, changes.topic, changes.window).where(
        changes.topic.in_(sorted(made.topics)),
        changes.window >= made.start,
        changes.window < made.end,
        changes.changed_at >= made.asked_at,
    )
    with store.read() as connection:
        found = [(row.cluster, row.topic, row.window) for row in connection.execute(query)]
    return [one for one in found if one[:2] in made.names]


def _unread(store: Store, made: Scrub) -> list[Row]:
    """Batches that cannot be read any more."""
    query = select(incidents).where(
        incidents.c.kind == UNREADABLE,
        incidents.c.topic.in_(sorted(made.topics)),
        incidents.c.at >= made.asked_at,
    )
    with store.read() as connection:
        return [dict(row) for row in connection.execute(query).mappings()]


def _show(
    made: Scrub,
    done: Sequence[tuple[str, RecountRequest]],
    rows: Iterable[Row],
    unread: Iterable[Row],
    as_json: bool,
) -> None:
    bad = [row for row in rows if row["state"] not in GOOD]
    if as_json:
        told: dict[str, Any] = {
            "partitions": [{"cluster": cluster, **_told(one)} for cluster, one in done],
            "verdicts": bad,
            "unreadable": [{**row} for row in unread],
        }
        click.echo(json.dumps(told, indent=2))
        return
    if not done:
        click.echo("nothing was counted that could be read again")
        return
    names = ("cluster", "topic", "partitions", "windows", "MB", "cells not as counted", "")
    table = Table(*names, box=None)
    for cluster, topic in sorted({(cluster, one.topic) for cluster, one in done}):
        some = [one for name, one in done if (name, one.topic) == (cluster, topic)]
        table.add_row(
            plain(cluster),
            plain(topic),
            str(len(some)),
            f"{sum(one.windows for one in some):,}",
            f"{sum(one.bytes for one in some) / 1e6:,.1f}",
            f"{sum(one.cells for one in some):,}",
            "" if all(one.done for one in some) else "not finished",
        )
    print_table(table)
    for row in unread:
        print_line(f"{row['cluster']} {row['topic']}-{row['partition']}: {row['reason']}")
    if bad:
        print_table(verdict_table(bad))
    else:
        click.echo("all windows that were read again are complete")


def _told(one: RecountRequest) -> dict[str, Any]:
    names = ("topic", "partition", "windows", "bytes", "cells", "done")
    return {name: getattr(one, name) for name in names}
