"""Translated offsets never skip a message, whatever pairs are left."""

from __future__ import annotations

import random
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from tallymark.mirror.copying.pending_range import PendingRange
from tallymark.mirror.offsets.offset_sync_writer import OffsetSyncWriter
from tallymark.mirror.offsets.offset_syncs import (
    LAST_SLOT,
    TOPIC,
    OffsetSync,
    PendingSyncs,
    decode,
    encode,
    slot_of,
    translate,
)
from tallymark.mirror.progress import PartitionCopy, Range
from tallymark.mirror.target.target import Target

P = ("clicks", 3)


def sync(source: int, count: int, target: int) -> OffsetSync:
    return OffsetSync(source, count, "dc1.clicks", 3, target, "id")


@pytest.mark.parametrize("seed", range(60))
def test_nothing_is_skipped(seed: int) -> None:
    """Records of one source partition between those of others; the mirror is killed and copies some
    twice; of the pairs any may be gone."""
    chance = random.Random(seed)
    target: list[int | None] = []
    syncs: list[OffsetSync] = []
    book = PendingSyncs("a-to-b")
    at = 0
    for second in range(1, 60):
        if chance.random() < 0.1:
            at = max(0, at - chance.randint(1, 8))  # killed: it goes on at the last stored offset
        if chance.random() < 0.4:
            target += [None] * chance.randint(1, 5)
        count = chance.randint(1, 6)
        book.copied(P, sync(at, count, len(target)))
        target += range(at, at + count)
        at += count
        for key, value in book.take(second * 1000):
            found = decode(key, value)
            assert found is not None
            assert found[:2] == ("a-to-b", P)
            syncs.append(found[2])
    end = max(one for one in target if one is not None) + 1
    target += range(at, end)  # what was copied before the last kill comes again
    kept = [one for one in syncs if chance.random() < 0.5]
    for offset in range(end + 3):
        place = translate(kept, offset)
        if place is not None:
            assert place[:2] == ("dc1.clicks", 3)
            read = {one for one in target[place[2] :] if one is not None}
            assert read >= set(range(offset, end)), (offset, place)


def test_within_a_run_it_is_exact() -> None:
    book = PendingSyncs("a-to-b")
    for source in (100, 110, 120):
        book.copied(P, sync(source, 10, source + 50))
    ((key, value),) = book.take(5000)
    assert book.take(6000) == []
    found = decode(key, value)
    assert found == ("a-to-b", P, replace(sync(100, 30, 150), time_ms=5000))
    pairs = [found[2]]
    assert [translate(pairs, offset) for offset in (99, 100, 115, 130, 900)] == [
        None,
        ("dc1.clicks", 3, 150),
        ("dc1.clicks", 3, 165),
        ("dc1.clicks", 3, 180),
        ("dc1.clicks", 3, 180),
    ]


def test_a_target_that_was_cut_takes_the_translation_back() -> None:
    """What was copied later stands at lower offsets than what was lost."""
    pairs = [sync(0, 100, 1000), sync(100, 10, 1020)]
    assert translate(pairs, 50) == ("dc1.clicks", 3, 1020)


@pytest.mark.slow
def test_compaction_leaves_old_pairs_sparse_and_new_ones_dense() -> None:
    kept: dict[bytes, int] = {}
    now = 1_700_000_000
    for second in range(now - 100_000, now):
        key, _ = encode("a-to-b", P, slot_of(second), sync(0, 1, 0))
        kept[key] = second
    ages = sorted(now - second for second in kept.values())
    assert len(ages) <= LAST_SLOT + 1
    assert ages[:3] == [1, 2, 4] or ages[0] <= 2
    for wanted in (10, 100, 1000, 10_000):
        assert any(wanted <= age <= 4 * wanted for age in ages), (wanted, ages)
    assert slot_of(0) == slot_of(2**40) == LAST_SLOT


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, None), (b"x", b"{}"), (b"m|t|0|1", b"{}"), (b"m|t|x|1", b"{}"), (b"\xff", b"[]")],
)
def test_what_is_no_pair_is_left_out(key: bytes | None, value: bytes | None) -> None:
    assert decode(key, value) is None


@dataclass
class Published:
    """A target that remembers what was published."""

    pairs: list[OffsetSync] = field(default_factory=list[OffsetSync])

    def publish_soon(self, topic: str, configs: Any, key: bytes, value: bytes) -> Future[None]:
        found = decode(key, value)
        assert topic == TOPIC
        assert found is not None
        self.pairs.append(replace(found[2], time_ms=0))
        done = Future[None]()
        done.set_result(None)
        return done


def arrived(*base_offsets: int, ranges: list[Range]) -> PendingRange:
    """A range that went to the target in one batch for each of its offsets there."""
    first, end = ranges[0][0], ranges[-1][1] + 1
    copy = PartitionCopy(first, [])
    pending = PendingRange(P, copy, first, end, 0, ranges, end - first, open=len(base_offsets))
    pending.target = ("dc1.clicks", 3) if len(base_offsets) == 1 else None
    for offset in base_offsets:
        pending.settled(None, offset)
    return pending


def test_only_a_range_whose_offsets_in_the_target_are_known_one_by_one_has_a_pair() -> None:
    """A range that went there in several batches, that has gaps, or whose offset the target did not
    return (a duplicate) would move a consumer to a message that is not its own."""
    target = Published()
    writer = OffsetSyncWriter("a-to-b", cast(Target, target), lambda partition: "id")
    writer.arrived(arrived(50, 90, ranges=[(0, 9)]))
    writer.arrived(arrived(60, ranges=[(10, 12), (15, 19)]))
    writer.arrived(arrived(-1, ranges=[(20, 29)]))
    assert writer.publish() == []
    writer.arrived(arrived(70, ranges=[(30, 39)]))
    writer.arrived(arrived(80, ranges=[(40, 44)]))
    writer.close()
    assert target.pairs == [sync(30, 15, 70)]
    assert writer.publish() == [], "each is published once"
