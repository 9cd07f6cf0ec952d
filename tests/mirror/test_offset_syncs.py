"""Translated offsets never skip a message, whatever pairs are left."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tallymark.mirror.offsets.offset_syncs import (
    LAST_SLOT,
    OffsetSync,
    PendingSyncs,
    decode,
    encode,
    slot_of,
    translate,
)

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
