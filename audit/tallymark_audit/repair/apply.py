"""Carry out a repair, in portions: read (:mod:`.portion`), decide (:mod:`.decide`), copy.

Records that are downstream already are left alone, so a plan can be applied twice, after it broke
off in the middle, or after the mirror brought some of it. Records go where the mirror would put
them, unchanged: key, value, timestamp and headers with the stamp, in the order they have upstream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tallymark.client import Producer
from tallymark.client.core.partition_layout import Layout
from tallymark.errors import ConnectError, TallymarkError
from tallymark_audit.model.log_reader import LogReader
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.repair.decide import outdated, to_copy
from tallymark_audit.repair.items import RepairItem
from tallymark_audit.repair.plan import RepairPlan
from tallymark_audit.repair.portion import Portion, read_portion
from tallymark_audit.repair.upstream import (
    Clusters,
    RecordId,
    UpstreamRecord,
    portions,
    sequences_in,
    why_gone,
)

DELIVERY_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class ItemResult:
    """The result of one item, in sequences: ``copied`` now, ``present`` downstream already,
    ``gone`` from upstream, ``superseded`` by a later record of the key in a compacted topic.
    ``reason`` says why some were not copied."""

    item: RepairItem
    copied: RangeSet = EMPTY
    present: RangeSet = EMPTY
    gone: RangeSet = EMPTY
    superseded: RangeSet = EMPTY
    reason: str = ""

    @property
    def outcome(self) -> str:
        """``repaired``, ``present`` (nothing was missing any more), ``partly``, ``failed`` or
        ``refused``."""
        if self.item.refused:
            return "refused"
        if self.item.missing - self.copied - self.present:
            return "partly" if self.copied or self.present else "failed"
        return "repaired" if self.copied else "present"


def apply_plan(
    plan: RepairPlan, clusters: Clusters, done: Callable[[ItemResult], object] = lambda _: None
) -> list[ItemResult]:
    """Carry the plan out; ``done`` is called with each item as it is finished. An error of one
    portion is the reason of its items, and the others go on. ConnectError: a cluster cannot be
    reached; what was copied stays copied, and the plan may be applied again."""
    results: list[ItemResult] = []
    for items in portions(plan.items):
        for result in _apply(items, clusters):
            results.append(result)
            done(result)
    return results


def _apply(items: Sequence[RepairItem], clusters: Clusters) -> list[ItemResult]:
    first, copied = items[0], set[RecordId]()
    if first.refused:
        return [ItemResult(item, reason=item.refused) for item in items]
    try:
        portion = read_portion(items, clusters)
        there = portion.downstream
        superseded = portion.superseded | outdated(portion.sources, there.newest)
        wanted = to_copy(portion.sources, there.present, superseded)
        error = _copy(clusters.producer(first.downstream), first, wanted, portion.layout, copied)
    except ConnectError:
        raise
    except TallymarkError as why:
        return [ItemResult(item, sequences_in(item, copied), reason=str(why)) for item in items]
    upstream = clusters.reader(first.upstream)
    return [_result(item, upstream, portion, copied, superseded, error) for item in items]


def _copy(
    producer: Producer,
    item: RepairItem,
    wanted: Iterable[tuple[RecordId, UpstreamRecord]],
    layout: Layout,
    copied: set[RecordId],
) -> str:
    """Send all, and wait until each is acknowledged: those are in ``copied`` then. Returns what
    went wrong with the others, ``""``: nothing."""
    deliveries = [
        (
            identity,
            producer.send(
                item.topic,
                record.value,
                key=record.key,
                partition=layout.partition_of(record.key, partition),
                timestamp=max(0, record.timestamp),
                headers=list(record.headers),
            ),
        )
        for identity, (partition, record) in wanted
    ]
    first_error = ""
    for identity, delivery in deliveries:
        try:
            delivery.result(DELIVERY_S)
            copied.add(identity)
        except ConnectError:
            raise
        except TallymarkError as error:
            first_error = first_error or f"{item.downstream} did not take them: {error}"
    return first_error


def _result(
    item: RepairItem,
    upstream: LogReader,
    portion: Portion,
    copied: set[RecordId],
    superseded: set[RecordId],
    error: str,
) -> ItemResult:
    mine = sequences_in(item, copied)
    there = sequences_in(item, portion.downstream.present)
    gone = item.missing - sequences_in(item, portion.sources) - there
    later = sequences_in(item, superseded) - there
    reasons = [error] if item.missing - there - gone - later - mine else []
    if gone:
        reasons.append(why_gone(item, gone, upstream))
    if later:
        reasons.append(
            f"{item.topic} is compacted and a later record has the key: sequences {later}"
        )
    return ItemResult(item, mine, there, gone, later, "; ".join(reasons))
