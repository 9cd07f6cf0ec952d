"""Which of the landed spans can become part of the table. Pure.

A table takes ranges that begin where it ends. If one span of a partition failed, what landed before
it is committed all the same, and what landed behind it is thrown away: the next load begins at the
failure, and a partition that cannot be read holds up no other one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tallymark_spark_jobs.lake.table import Manifest, OffsetRange, PartitionKey
from tallymark_spark_jobs.load.landing import Landed


@dataclass(frozen=True, slots=True)
class Committable:
    """``ranges`` and their ``manifests`` go into one commit. ``useless``: manifests whose files
    are removed. ``failures``: why a partition could not be read on; ``damaged``: ranges that were
    left out, each with the reason."""

    ranges: tuple[OffsetRange, ...]
    manifests: tuple[Manifest, ...]
    useless: tuple[Manifest, ...]
    failures: Mapping[PartitionKey, str]
    damaged: tuple[tuple[OffsetRange, str], ...]


def committable(
    planned: Sequence[OffsetRange], lost: Sequence[OffsetRange], landed: Iterable[Landed]
) -> Committable:
    """Of each planned range the beginning that landed without a hole. ``lost`` ranges, which were
    deleted before this load, count as landed."""
    by_key: dict[PartitionKey, list[Manifest]] = defaultdict(list)
    failures: dict[PartitionKey, str] = {}
    damage: list[tuple[OffsetRange, str]] = []
    for one in landed:
        if one.manifest is not None:
            by_key[one.range.key].append(one.manifest)
            damage += one.lost
        else:
            failures.setdefault(one.range.key, one.failure)
    for gap in lost:
        by_key[gap.key].append(Manifest(span=gap, expired=gap.end - gap.start))
    ranges: list[OffsetRange] = []
    kept: list[Manifest] = []
    useless: list[Manifest] = []
    for span in planned:
        at = span.start
        for manifest in sorted(by_key.pop(span.key, []), key=lambda one: one.span[1:]):
            if manifest.span.start == at and manifest.span.end <= span.end:
                kept.append(manifest)
                at = manifest.span.end
            else:
                useless.append(manifest)
        if at > span.start:
            ranges.append(span._replace(end=at))
    useless += (manifest for some in by_key.values() for manifest in some)
    ends = {one.key: one.end for one in ranges}
    return Committable(
        tuple(ranges),
        tuple(kept),
        tuple(useless),
        failures,
        tuple((gap, why) for gap, why in damage if gap.end <= ends.get(gap.key, -1)),
    )
