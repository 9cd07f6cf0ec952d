"""Batches are cut into runs in bulk; a plain loop over single records says the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.client.producing.stamps import MAX_SEQUENCE, Stamp, decode_stamp, encode_stamp
from tallymark.protocol.records.batch import Batch, encode_batch, split_batches
from tallymark.protocol.records.columns import RecordColumns
from tallymark_audit.collector.counting.malformed import malformed_incidents, why_malformed
from tallymark_audit.model import sketches
from tallymark_audit.model.cells import CellKey, window_of
from tallymark_audit.model.contents import blocks_of
from tallymark_audit.model.hashing import BLOCK, MASK, content
from tallymark_audit.model.record_runs import Rules, SeenRun, runs_in

W = 1000
RULES = Rules(W, future=5000, past=1500, seen_at=6000)


@dataclass
class One:
    """One record, as the plain loop takes it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    stamps: list[bytes | None]


def plainly(records: Iterable[One], rules: Rules) -> list[SeenRun]:
    """Record by record, each of them decoded."""
    runs: list[SeenRun] = []
    before: tuple[CellKey, int, int, bytes | None] | None = None
    for one in records:
        raw = (one.stamps[-1] or b"") if one.stamps else None
        stamp = decode_stamp(raw) if raw is not None else None
        if stamp is not None and "\0" in stamp.server:
            stamp = None
        window = window_of(one.timestamp, rules.window_ms)
        key, sequence, same = CellKey("t", 3, window, "", ""), -1, raw
        if stamp is not None:
            key = CellKey("t", stamp.partition, window, stamp.server, stamp.instance.hex())
            sequence, same = stamp.sequence, None
        follows = (key, one.offset - 1, sequence - 1 if stamp else -1, same)
        if before != follows:
            runs.append(SeenRun(key, sequence, one.offset))
        before = (key, one.offset, sequence, same)
        run = runs[-1]
        run.count += 1
        run.bytes += len(one.key or b"") + len(one.value or b"")
        if raw is not None and stamp is None:
            run.malformed, run.raw = run.malformed + 1, raw
        timestamp = max(-1, one.timestamp)
        run.min_timestamp = timestamp if run.count == 1 else min(run.min_timestamp, timestamp)
        run.max_timestamp = max(run.max_timestamp, timestamp)
        if one.timestamp > rules.future or 0 <= one.timestamp < rules.past:
            run.skewed += key.instance not in rules.exempt
        if one.timestamp >= 0:
            sketches.add(run.latency, rules.seen_at - one.timestamp)
        if rules.content_check and stamp is not None:
            run.blocks = add_block(run, sequence, content(sequence, one.key, one.value))
    return runs


def add_block(run: SeenRun, sequence: int, hashed: int) -> tuple:  # type: ignore[type-arg]
    known = {block.block: block for block in run.blocks}
    number = sequence // BLOCK
    made = blocks_of(number * BLOCK, [None], [None])[0]
    old = known.get(number)
    records, total = (old.records, old.hash) if old else (0, 0)
    known[number] = made._replace(records=records + 1, hash=total + hashed & MASK)
    return tuple(known[n] for n in sorted(known))


def batch_of(records: list[One], base: int) -> Batch:
    found = [
        (one.key, one.value, [("tm", raw) for raw in one.stamps], one.timestamp) for one in records
    ]
    (batch,) = split_batches(encode_batch(found, base_offset=base))
    return batch


names = st.sampled_from(["web-1", "web-2", "", "x" * 200, "we\0b"])
stamps = st.builds(
    Stamp,
    st.sampled_from([b"instance", b"another!"]),
    st.sampled_from([0, 1, 200]),
    st.sampled_from([0, 5, 100, 126, 1000, 16_380, 2**40, MAX_SEQUENCE - 2]),
    names,
)
foreign = st.sampled_from([[], [b""], [None], [b"\x02junk"], [b"\x01short"], [b"a", b"b"]])
stretches = st.one_of(
    st.tuples(st.just("stamped"), stamps, st.integers(1, 40), st.integers(0, 2500)),
    st.tuples(st.just("foreign"), foreign, st.integers(1, 9), st.integers(-3, 2500)),
)


def records_of(script: list[tuple], base: int, step: int) -> list[One]:  # type: ignore[type-arg]
    found: list[One] = []
    for kind, what, count, timestamp in script:
        for number in range(count):
            if kind == "foreign":
                raws: list[bytes | None] = list(what)
            else:
                sequence = min(MAX_SEQUENCE, what.sequence + number)
                raws = [encode_stamp(Stamp(what.instance, what.partition, sequence, what.server))]
            value = None if timestamp % 5 == 0 else bytes(timestamp % 3 + 1)
            at = timestamp + number * step if timestamp >= 0 else timestamp
            found.append(One(base + len(found), at, b"k" if timestamp % 2 else None, value, raws))
    return found


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.lists(stretches, min_size=1, max_size=6),
    st.integers(0, 1000),
    st.sampled_from([0, 1, 40]),
    st.booleans(),
)
def test_bulk_and_plain_loop_agree(
    script: list[tuple],  # type: ignore[type-arg]
    base: int,
    step: int,
    check: bool,
) -> None:
    records = records_of(script, base, step)
    rules = Rules(W, 5000, 1500, 6000, check, exempt=frozenset({b"another!".hex()}))
    found = runs_in([batch_of(records, base)], "t", 3, base, rules)
    assert found == plainly(records, rules)


@settings(max_examples=60, deadline=None)
@given(st.lists(stretches, min_size=1, max_size=4), st.data())
def test_they_agree_on_logs_with_holes_and_from_the_middle(
    script: list[tuple],  # type: ignore[type-arg]
    data: st.DataObject,
) -> None:
    """Compaction leaves holes in offsets; a fetch begins anywhere in a batch."""
    records = records_of(script, 0, 1)
    batch = batch_of(records, 0)
    keep = data.draw(st.lists(st.booleans(), min_size=len(records), max_size=len(records)))
    start = data.draw(st.integers(0, len(records) - 1))
    kept = [one for one, stays in zip(records, keep, strict=True) if stays and one.offset >= start]

    class Compacted:
        header = batch.header
        usual_max_size = batch.usual_max_size

        def columns(self, max_size: int) -> RecordColumns:
            columns = batch.columns()
            columns._keep = keep
            columns.offsets = [
                one.offset for one, stays in zip(records, keep, strict=True) if stays
            ]
            return columns

    found = runs_in([Compacted()], "t", 3, start, RULES)  # type: ignore[list-item]
    assert found == plainly(kept, RULES)


def test_a_batch_of_one_producer_is_one_run() -> None:
    records = records_of([("stamped", Stamp(b"instance", 0, 90, "web"), 500, 1000)], 7, 0)
    (run,) = runs_in([batch_of(records, 7)], "t", 0, 7, RULES)
    assert (run.first, run.last, run.offset, run.last_offset) == (90, 589, 7, 506)


def test_a_run_ends_where_sequences_do() -> None:
    """The stamp that would come next has one byte more than a stamp may have, so it is malformed;
    a comparison of bytes alone took it for the next one."""
    good = encode_stamp(Stamp(b"instance", 0, MAX_SEQUENCE, "w"))
    beyond = good[:10] + b"\x80" * 9 + b"\x01w"
    records = [One(at, 0, None, b"v", [raw]) for at, raw in enumerate([good, beyond])]
    first, second = runs_in([batch_of(records, 0)], "t", 0, 0, RULES)
    assert (first.last, second.malformed) == (MAX_SEQUENCE, 1)


GOOD = encode_stamp(Stamp(b"instance", 300, 70_000, "web"))


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "empty"),
        (b"\x02" + GOOD[1:], "of version 2"),
        (GOOD[:5], "cut short before the end of its partition"),
        (GOOD[:10], "cut short before the end of its partition"),
        (GOOD[:12], "cut short before the end of its sequence"),
        (GOOD[:9] + b"\xff" * 9 + b"\x01", "the partition of the stamp is no number"),
        (GOOD[:11] + b"\xff" * 20, "the sequence of the stamp is no number"),
        (GOOD[:9] + b"\x80\x00" + GOOD[11:], "the partition of the stamp is no number"),
        (GOOD[:9] + b"\xff\xff\xff\xff\x7f" + GOOD[11:], "the partition of the stamp is no number"),
        (GOOD + b"w" * 1_000_000, "longer than 255 bytes"),
        (GOOD + b"\0", "NUL"),
        (GOOD + b"\xff", "not UTF-8"),
    ],
)
def test_what_is_wrong_with_a_stamp_is_said(raw: bytes, reason: str) -> None:
    records = [One(at, 0, None, b"v", [raw]) for at in range(3)]
    runs = runs_in([batch_of(records, 0)], "t", 0, 0, RULES)
    assert sum(run.malformed for run in runs) == 3
    assert reason in why_malformed(raw)
    (incident,) = malformed_incidents(runs, ("t", 0))
    assert (incident.from_offset, incident.to_offset, incident.count) == (0, 3, 3)
    assert reason in incident.reason


@given(st.binary(max_size=40))
def test_any_bytes_have_one_of_a_few_reasons(raw: bytes) -> None:
    assert len(why_malformed(b"\x01" + raw)) < 100
