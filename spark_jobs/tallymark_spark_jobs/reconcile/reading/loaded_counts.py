"""What a load has counted of a cluster, in place of counting it again (``--trust-load-counts``).

Every commit of a load has the tallies of the offsets that it loaded. Where the commits cover a log
from where a look would begin to read, their tallies stand for the first pass, and only what lies
behind them is read. Verdicts other than complete are taken again from the log itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from tallymark.client import SimpleConsumer
from tallymark.deployment import Deployment
from tallymark.errors import UserError
from tallymark_spark_jobs.lake.opening import Lake
from tallymark_spark_jobs.lake.table import Commit, PartitionKey
from tallymark_spark_jobs.reconcile.reading.read_plan import Planned, ReadPlan
from tallymark_spark_jobs.reconcile.shapes.period import Period
from tallymark_spark_jobs.reconcile.shapes.tallies import Seen

SLACK_MS: Final = 86_400_000
"""Commits of so long before the period may still have some of it: of clocks that are ahead."""
Ranges = dict[PartitionKey, list[tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class LoadedCounts:
    """``plan``: what is left to be read. ``seen``: what the loads counted in the period, of
    ``offsets`` that need not be read."""

    plan: ReadPlan
    seen: tuple[Seen, ...] = ()
    offsets: int = 0


def loaded_counts(deployment: Deployment, plan: ReadPlan, period: Period) -> LoadedCounts:
    """Take from the plan what loads have counted. UserError: there is no lake, or it cannot be
    read."""
    if deployment.lake is None:
        raise UserError(
            "--trust-load-counts needs counts of loads, and the settings have no [lake]",
            "leave it out, or load first: tallymark load",
        )
    lake = Lake(deployment.lake_path, deployment.lake.format)
    loaded = {cluster.name for cluster in deployment.lake_clusters}
    ids: dict[str, str] = {}
    spans: list[Planned] = []
    seen: list[Seen] = []
    known: dict[tuple[str, str], tuple[Ranges, list[Commit]]] = {}
    trusted: dict[tuple[str, str], set[PartitionKey]] = {}
    for one in plan.spans:
        cluster, span = one
        place = cluster, span.topic
        if cluster not in loaded:
            spans.append(one)
            continue
        if cluster not in ids:
            ids[cluster] = _cluster_id(plan, cluster)
        if place not in known:
            known[place] = _history(lake, *place, period)
        key = PartitionKey(ids[cluster], span.topic_id, span.topic, span.partition)
        ranges = known[place][0]
        other = any(one.partition == key.partition and one != key for one in ranges)
        # A tally does not say of which topic it is, where one was made anew.
        end = 0 if other else min(covered(ranges.get(key, ()), span.start), span.end)
        if end > span.start:
            trusted.setdefault(place, set()).add(key)
        spans.append(Planned(cluster, replace(span, start=max(span.start, end))))
    for (cluster, topic), keys in trusted.items():
        partitions = {key.partition for key in keys}
        for commit in known[cluster, topic][1]:
            if {one.key for one in commit.ranges} & keys:
                seen += [
                    Seen(cluster, tally)
                    for tally in commit.tallies
                    if tally.first_partition in partitions and period.holds(tally.key.window)
                ]
    left = replace(plan, spans=tuple(one for one in spans if one.span.offsets > 0))
    return LoadedCounts(left, tuple(seen), plan.offsets - left.offsets)


def covered(ranges: Iterable[tuple[int, int]], start: int) -> int:
    """Up to which offset (excluded) the ranges cover a log from ``start`` on, without a hole."""
    end = start
    for first, last in sorted(ranges):
        if first > end:
            break
        end = max(end, last)
    return end


def _history(lake: Lake, cluster: str, topic: str, period: Period) -> tuple[Ranges, list[Commit]]:
    """What was loaded of each partition, and the commits that may have some of the period."""
    ranges: Ranges = {}
    commits: list[Commit] = []
    for commit in lake.table(cluster, topic).history():
        if commit.operation != "load":
            continue  # repairs and compaction bring rows that were counted before
        for key, start, end in commit.ranges:
            ranges.setdefault(key, []).append((start, end))
        if period.start is None or commit.at_ms >= period.start - SLACK_MS:
            commits.append(commit)
    return ranges, commits


def _cluster_id(plan: ReadPlan, cluster: str) -> str:
    with SimpleConsumer(**plan.connections[cluster], client_id="tallymark-reconcile") as consumer:
        consumer.topics()
        return consumer.cluster_id or cluster
