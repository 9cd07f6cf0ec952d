"""What the page of a topic says of its partitions, servers and latencies. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tallymark_dashboards.view.charts.delivery import Delivered
from tallymark_dashboards.view.charts.latency import Took
from tallymark_dashboards.view.funnel import SumsLike


class BucketLike(Protocol):
    """:class:`tallymark_audit.store.reading.series.Bucket`."""

    @property
    def start(self) -> int: ...
    @property
    def sums(self) -> SumsLike: ...


class PercentilesLike(Protocol):
    """:class:`tallymark_audit.store.reading.latency.Percentiles`."""

    @property
    def cluster(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def p50(self) -> float: ...
    @property
    def p95(self) -> float: ...
    @property
    def p99(self) -> float: ...
    @property
    def greatest(self) -> float: ...


class CountLike(Protocol):
    """:class:`tallymark_audit.store.reading.topic.PartitionCount`."""

    @property
    def cluster(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def behind(self) -> int: ...
    @property
    def through(self) -> int: ...


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition as the page shows it. ``late``: the count is behind for longer than is usual;
    only then ``behind`` and ``through`` are shown, since they change with every record. ``leader``:
    its broker, -1 where there is none, None where that is not known."""

    cluster: str
    topic: str
    partition: int
    late: bool
    behind: int
    through: int
    leader: int | None = None
    under_replicated: bool = False


def delivered(buckets: Iterable[BucketLike]) -> list[Delivered]:
    """The buckets as the chart draws them."""
    return [
        Delivered(
            one.start,
            one.sums.claimed,
            one.sums.observed,
            one.sums.pending,
            one.sums.missing,
            one.sums.explained,
        )
        for one in buckets
    ]


def by_cluster(found: Iterable[PercentilesLike]) -> dict[str, list[Took]]:
    """The lines of each cluster."""
    lines: dict[str, list[Took]] = {}
    for one in found:
        took = Took(one.start, one.p50, one.p95, one.p99, one.greatest)
        lines.setdefault(one.cluster, []).append(took)
    return lines


def partition_rows(
    counts: Iterable[CountLike],
    leaders: Mapping[tuple[str, str, int], tuple[int, bool]],
    counted_since: int,
) -> list[PartitionRow]:
    """``leaders``: leader and whether a replica is not in sync, by cluster, topic and partition.
    ``counted_since`` (ms): what was counted then or later is up to date. The late ones and those
    without a leader come first."""
    rows: list[PartitionRow] = []
    for one in counts:
        late = one.behind > 0 and one.through < counted_since
        leader, lacking = leaders.get((one.cluster, one.topic, one.partition), (None, False))
        rows.append(
            PartitionRow(
                one.cluster,
                one.topic,
                one.partition,
                late,
                one.behind if late else 0,
                one.through if late else 0,
                leader,
                lacking,
            )
        )
    return sorted(
        rows,
        key=lambda row: (
            not row.late,
            row.leader != -1,
            not row.under_replicated,
            row.cluster,
            row.topic,
            row.partition,
        ),
    )
