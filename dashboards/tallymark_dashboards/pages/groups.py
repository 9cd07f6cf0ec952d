"""Consumer groups: how far each is behind, and whether it moves. From the snapshots, in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tallymark_dashboards.frame.ask import Ask
from tallymark_dashboards.frame.missing import Near, missing, nearest
from tallymark_dashboards.frame.page import Page
from tallymark_dashboards.frame.registry import page
from tallymark_dashboards.snapshots.holder import Snapshots
from tallymark_dashboards.snapshots.shapes import (
    WORST_LAST,
    ClusterState,
    GroupPartition,
    GroupState,
    Status,
)
from tallymark_dashboards.view.clusters.group_lag import STATUS_MARKS, lag_chart, spark, status_mark
from tallymark_dashboards.view.clusters.stale import Stale, stale_parts
from tallymark_dashboards.view.marks import Tone

GROUPS: Final = 50
"""Groups on one page."""
PARTITIONS: Final = 200
MEMBERS: Final = 100
_BAD: Final = (Status.STALLED, Status.STOPPED)


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group as the list shows it; ``course`` is SVG, "" where there is none yet."""

    cluster: str
    group: GroupState
    course: str


@page("/groups", name="groups", nav="Consumer groups", live=True, ranged=False, needs_store=False)
def groups(ask: Ask) -> Page:
    """Every group of every cluster, the worst first."""
    snapshots = ask.context.snapshots
    names = [one.name for one in snapshots.clusters]
    cluster = ask.one_of("cluster", names, "")
    status = ask.one_of("status", [str(one) for one in reversed(WORST_LAST)], "")
    find = ask.text("q")
    everything = [
        (one.name, group)
        for one in snapshots.clusters
        if cluster in ("", one.name)
        for group in one.all_groups
    ]
    counts = dict.fromkeys(reversed(WORST_LAST), 0)
    for _, group in everything:
        counts[group.status] += 1
    found = [
        (name, group)
        for name, group in everything
        if status in ("", group.status) and find.lower() in group.group.lower()
    ]
    found.sort(key=_worst_first)
    paging = ask.paging(len(found), GROUPS)
    shown = found[paging.skip : paging.skip + GROUPS]
    chosen = [one for one in snapshots.clusters if cluster in ("", one.name)]
    stopped = sum(counts[one] for one in _BAD)
    values = {
        "rows": [_row(snapshots, name, group) for name, group in shown],
        "counts": counts,
        "known": len(everything),
        "found": len(found),
        "q": find,
        "cluster": cluster,
        "clusters": names,
        "status": status,
        "number": paging.number,
        "pages": paging.pages,
        "stale": stale_of(chosen, ask.now),
        "read": any(one.groups.at or one.zookeeper.at for one in chosen),
        "left_out": [f"{one.name}: {one.left_out}" for one in chosen if one.left_out],
        "status_mark": status_mark,
        "marks_of_status": STATUS_MARKS,
    }
    tone: Tone = "bad" if stopped else "warn" if counts[Status.WARN] else ""
    return Page("Consumer groups", "pages/groups.html", values, tone, stopped)


@page("/group", name="group", nav="Consumer groups", live=True, ranged=False, needs_store=False)
def group(ask: Ask) -> Page:
    """One group: its partitions and its members."""
    snapshots = ask.context.snapshots
    cluster, name = ask.text("cluster"), ask.text("group")
    place = snapshots.cluster(cluster)
    if place is None:
        known = [one.name for one in snapshots.clusters]
        near = [Near(one, "groups", {"cluster": one}) for one in nearest(cluster, known) or known]
        return missing("cluster", cluster, near)
    found = place.group(name)
    if found is None:
        return _no_group(snapshots, place, name)
    partitions = sorted(found.partitions, key=_worst_partition)
    paging = ask.paging(len(partitions), PARTITIONS)
    course = snapshots.course_of(cluster, name)
    values = {
        "cluster": cluster,
        "group": found,
        "partitions": partitions[paging.skip : paging.skip + PARTITIONS],
        "number": paging.number,
        "pages": paging.pages,
        "members": found.members[:MEMBERS],
        "more_members": max(0, len(found.members) - MEMBERS),
        "client_of": {one.member_id: one.client_id or one.member_id for one in found.members},
        "course": course,
        "lag_chart": lag_chart([(one.at, one.lag) for one in course], "messages"),
        "delay_chart": lag_chart(
            [(one.at, one.delay_ms) for one in course if one.delay_ms >= 0], "time"
        ),
        "stale": stale_of([place], ask.now),
        "status_mark": status_mark,
        "marks_of_status": STATUS_MARKS,
    }
    mark = status_mark(found.status)
    bad = sum(one.status in _BAD for one in found.partitions)
    tone: Tone = mark.tone if mark.tone in ("bad", "warn") else ""
    return Page(f"{name} on {cluster}", "pages/group.html", values, tone, bad)


def stale_of(clusters: Iterable[ClusterState], now: int) -> list[Stale]:
    """What of these clusters' groups is not known, or not known any more."""
    found: list[Stale] = []
    for one in clusters:
        found += stale_parts(one.name, [("consumer groups", one.groups)], now)
        if one.zookeeper.at:  # a deployment may do without ZooKeeper
            found += stale_parts(one.name, [("groups in ZooKeeper", one.zookeeper)], now)
    return found


def _no_group(snapshots: Snapshots, place: ClusterState, name: str) -> Page:
    here = [one.group for one in place.all_groups]
    near = [
        Near(one, "group", {"cluster": place.name, "group": one}) for one in nearest(name, here)
    ]
    near += [
        Near(f"{name} on {one.name}", "group", {"cluster": one.name, "group": name})
        for one in snapshots.clusters
        if one.name != place.name and one.group(name) is not None
    ]
    hint = f"{place.name} has {len(here):,} groups."
    if not place.groups.at:
        why = place.groups.error or "they were not read yet"
        hint = f"The groups of {place.name} are not known: {why}"
    return missing("consumer group", name, near, hint)


def _row(snapshots: Snapshots, cluster: str, group: GroupState) -> GroupRow:
    course = snapshots.course_of(cluster, group.group)
    points = [(one.at, one.lag) for one in course]
    most = max((lag for _, lag in points), default=0)
    return GroupRow(cluster, group, spark(points, f"lag over time, {most:,} at most"))


def _worst_first(one: tuple[str, GroupState]) -> tuple[int, int, str, str]:
    cluster, group = one
    return -WORST_LAST.index(group.status), -(group.lag or 0), group.group, cluster


def _worst_partition(one: GroupPartition) -> tuple[int, int, str, int]:
    return -WORST_LAST.index(one.status), -(one.lag or 0), one.topic, one.partition
