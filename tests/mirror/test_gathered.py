"""What goes to the target in new batches is the same by decoding and by the compiled loops."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hostile_records import records
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.client.core.partition_layout import Layout
from tallymark.errors import CorruptRecordError
from tallymark.mirror.copying.gathered import DecodedRecords, LoopsOnDemand
from tallymark.mirror.copying.merging import gather
from tallymark.protocol.records.batch import Batch, encode_batch, split_batches
from tallymark.protocol.records.compiled import kernel, repartition
from tallymark.protocol.records.compression import CODECS, compress
from tallymark.protocol.records.writer import batch_header

pytest.importorskip("numba")


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    repartition.warm()
    assert kernel.KERNEL.wait(250)
    assert repartition.KERNEL.wait(250)


def usual(random: Random, offset: int) -> Batch:
    rows = [
        (
            random.choice((None, b"", b"key %d" % random.randrange(9))),
            random.choice((None, bytes(random.choice((0, 3, 200, 40_000))))),
            [("tm", b"x" * 17)] * random.randrange(2),
            1_700_000_000_000 + random.randrange(-9, 10**6),
        )
        for _ in range(random.choice((1, 4, 20)))
    ]
    data = encode_batch(rows, base_offset=offset, compression=random.choice(CODECS))
    return split_batches(data)[0]


def hostile(random: Random, offset: int) -> Batch:
    payload, count = records(random)
    codec = random.choice((0, 0, 2))
    data = bytes(compress(CODECS[codec], payload))
    if random.random() < 0.1:
        data = data[:-1]
    header = batch_header(
        data,
        attributes=codec | random.choice((0, 8)),
        count=min(max(1, count), 9000),
        base_timestamp=random.choice((0, 1_700_000_000_000, 2**63 - 1)),
        max_timestamp=5,
        producer=(-1, -1, -1),
        base_offset=offset,
    )
    return split_batches(header + data)[0]


def outcome(batches: list[Batch], whole: bool, first: int, layout: Layout, decoded: bool) -> Any:
    """All that the mirror asks for; None: the first batch is sent as it is."""
    try:
        found = gather(batches, whole, first, decoded=decoded)
    except CorruptRecordError as error:
        return str(error)
    if found is None:
        return None
    some, taken = found
    made = list(some.batches(layout, 5, "lz4")) if some.offsets else []
    return (
        taken,
        list(some.offsets),
        some.oldest if some.offsets else None,
        [(number, batch.header, bytes(batch.data)) for number, batch in made],
    )


@settings(max_examples=700, deadline=None)
@given(st.integers(0, 2**64))
@pytest.mark.slow
def test_the_same_goes_to_the_same_partitions(seed: int) -> None:
    random = Random(seed)
    batches = [
        (hostile if random.random() < 0.2 else usual)(random, 100 * number)
        for number in range(random.choice((1, 1, 3, 8)))
    ]
    whole = random.random() < 0.4
    first = 0 if whole else random.choice((0, 2, 150, 2000))
    layout = Layout("t", random.choice((1, 3, 50)), random.random() < 0.3)
    pure = outcome(batches, whole, first, layout, decoded=True)
    compiled = outcome(batches, whole, first, layout, decoded=False)
    if isinstance(pure, tuple) and isinstance(compiled, tuple):
        assert compiled[:3] == pure[:3]
    assert compiled == pure


def test_usual_batches_are_not_decoded() -> None:
    found = gather([usual(Random(1), 0)], False, 0)
    assert found is not None
    assert not isinstance(found[0], DecodedRecords)


def test_loops_are_loaded_by_mirrors_that_need_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that copies whole batches, or few records, does without their 140 MB."""
    loaded: list[bool] = []
    monkeypatch.setattr(repartition, "warm", lambda: loaded.append(True))
    loops = LoopsOnDemand()
    for _ in range(49):
        loops.note(1000)
    assert not loaded
    loops.note(1000)
    loops.note(1000)
    assert loaded == [True]
