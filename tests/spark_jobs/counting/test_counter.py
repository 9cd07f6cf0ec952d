"""The counter says what counting record by record says, however the records come."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from generated_logs import LogPiece, generated_log, pieces_of
from hostile_fetches import hostile_fetch
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_counter import PlainCounter

from tallymark.client.producing.stamps import Stamp, encode_stamp, stamp_of
from tallymark.errors import CorruptRecordError
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.hashing import content, mix
from tallymark_spark_jobs.counting import counter, identities
from tallymark_spark_jobs.counting.cell_runs import CellRun
from tallymark_spark_jobs.counting.counter import CellCounter, checksum
from tallymark_spark_jobs.counting.identities import LEAST_DATA, MALFORMED, NO_STAMP, read_stamps
from tallymark_spark_jobs.counting.strips import mixed
from tallymark_spark_jobs.counting.tally import CellTally, merged

SEEDS = st.integers(0, 2**64)
W = 1000
ALWAYS = (-(1 << 63), 1 << 63)


def in_order(runs: Iterable[CellRun]) -> list[CellRun]:
    return sorted(runs, key=lambda run: (run.key, run.aborted, run.first_sequence or 0))


def by_cell(tallies: Iterable[CellTally]) -> list[CellTally]:
    return sorted(tallies, key=lambda tally: (tally.key, tally.aborted))


def same(pieces: Sequence[LogPiece], random: Random) -> int:
    """How many runs there are; the assertions are that both count the same."""
    contents = random.random() < 0.3
    window_ms = random.choice((W, 7, 2**50))
    times = random.choice((ALWAYS, ALWAYS, (900, 1000), (0, 5_000), (-(2**70), 2**70)))
    plain = PlainCounter("t", 3, window_ms, contents, times)
    fast = CellCounter("t", 3, window_ms, contents, times=times)
    parts = CellCounter("t", 3, window_ms, contents, most_ranges=4, times=times)
    told: list[CellTally] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counter, "AT_ONCE", random.choice((1, 40, 16_384)))
        for piece in pieces:
            plain.add(piece)
            fast.add(piece)
            parts.add(piece)
            if parts.full:
                told += parts.tallies()
                parts.clear()
        told += parts.tallies()
    runs = plain.runs()
    assert in_order(fast.runs()) == in_order(runs)
    tallies = by_cell(plain.tallies())
    assert by_cell(fast.tallies()) == tallies
    together = by_cell(merged(told))
    assert [replace(one, copies=()) for one in together] == [
        replace(one, copies=()) for one in tallies
    ]
    return len(runs)


@pytest.mark.slow
@settings(max_examples=60)
@given(SEEDS)
def test_logs_are_counted_as_record_by_record(seed: int) -> None:
    same(pieces_of(generated_log(seed)), Random(seed))


@pytest.mark.slow
@settings(max_examples=60)
@given(SEEDS)
def test_hostile_logs_are_counted_as_record_by_record(seed: int) -> None:
    same(hostile_pieces(Random(seed)), Random(seed))


def hostile_pieces(random: Random) -> list[LogPiece]:
    fetched, start = hostile_fetch(random)
    found: list[LogPiece] = []
    for batch in (*fetched.batches, *fetched.left_out):
        try:
            columns = batch.columns(batch.usual_max_size)
        except CorruptRecordError:
            continue
        columns = columns.since(start)
        if columns.offsets and all(0 <= at < 2**63 for at in columns.offsets):
            found.append(LogPiece(columns, batch in fetched.left_out))
    return found


@pytest.mark.slow
def test_the_generated_logs_have_all_that_can_go_wrong() -> None:
    """Else the two properties above would show little."""
    found: set[str] = set()
    for seed in range(60):
        plain = PlainCounter("t", 3, W)
        for piece in pieces_of(generated_log(seed)):
            plain.add(piece)
        tallies = plain.tallies()
        found |= {"copies" for one in tallies if one.extra}
        found |= {"gaps" for one in tallies if len(one.ranges) > 1}
        found |= {"aborted" for one in tallies if one.aborted}
        found |= {"malformed" for one in tallies if one.malformed}
        found |= {"again and again" for one in tallies if len(one.again) > 1}
        found |= {"windows" for one in tallies if one.key.window > 0}
    assert found == {"copies", "gaps", "aborted", "malformed", "again and again", "windows"}


def piece(stamps: Iterable[tuple[str, int]], offset: int = 0, at: int = 0) -> LogPiece:
    """Records of these servers, with these sequences."""
    rows = [
        (None, b"v" * 10, (("tm", encode_stamp(Stamp(b"instance", 0, number, server))),), at)
        for server, number in stamps
    ]
    (batch,) = split_batches(encode_batch(rows, base_offset=offset))
    return LogPiece(batch.columns())


def counted(*pieces: LogPiece, most_ranges: int = 1000) -> CellCounter:
    made = CellCounter("t", 3, W, most_ranges=most_ranges)
    for one in pieces:
        made.add(one)
    return made


def test_records_of_others_between_end_no_run() -> None:
    """A mirror's batches hold the records of many producers, one after the other."""
    runs = list(counted(piece((f"web-{n % 50}", n // 50) for n in range(5_000))).runs())
    assert len(runs) == 50
    assert {(run.first_sequence, run.last_sequence, run.messages) for run in runs} == {(0, 99, 100)}


def test_copies_between_records_of_others_are_named() -> None:
    """Where strips have holes in their offsets, each record of a further copy has its own."""
    first = piece((server, n) for n in range(20) for server in ("a", "b"))
    again = piece(((server, n) for n in range(5, 9) for server in ("a", "b")), offset=100)
    runs = {run.key.server: run for run in counted(first, again).runs()}
    assert [tuple(copy) for copy in runs["a"].copies] == [(3, 100 + 2 * n, 5 + n) for n in range(4)]
    assert [tuple(copy) for copy in runs["b"].copies] == [(3, 101 + 2 * n, 5 + n) for n in range(4)]
    assert runs["a"].extra == runs["b"].extra == 4


def test_names_that_hash_alike_are_told_apart() -> None:
    """Whoever may write a topic chooses the names: the hash only finds candidates."""
    rows = [("abc", 1), ("abd", 1), ("abc", 2), ("ab", 7), ("abd", 2)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(identities, "_FACTOR", np.uint64(0))
        runs = list(counted(piece(rows)).runs())
    assert sorted((run.key.server, run.first_sequence, run.last_sequence) for run in runs) == [
        ("ab", 7, 7),
        ("abc", 1, 2),
        ("abd", 1, 2),
    ]


@pytest.mark.slow
def test_a_full_counter_is_emptied_and_counts_on() -> None:
    """Every second message is lost: a range each. Cells without end: one each."""
    for rows in ([("a", 2 * n) for n in range(5_000)], [(f"web-{n}", 7) for n in range(5_000)]):
        made, told = counted(most_ranges=1000), list[CellTally]()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(counter, "AT_ONCE", 1)
            for start in range(0, 5_000, 100):
                made.add(piece(rows[start : start + 100], offset=start))
                if made.full:
                    assert len(list(made.runs())) == 1000
                    told += made.tallies()
                    made.clear()
        assert not made.tallies()
        assert by_cell(merged(told)) == by_cell(counted(piece(rows)).tallies())


def test_nothing_is_told_of_nothing() -> None:
    made = counted()
    assert (list(made.runs()), made.tallies(), made.full) == ([], [], False)


@given(st.lists(st.binary(max_size=40) | st.none(), max_size=30), st.integers(0, 2**64))
def test_stamps_are_read_as_one_by_one(raw: list[bytes | None], seed: int) -> None:
    random = Random(seed)
    stamps: list[bytes | None] = []
    for one in raw:
        data = encode_stamp(
            Stamp(
                random.choice((b"instance", b"another!")),
                random.choice((0, 127, 128, 2**31 - 1)),
                random.choice((0, 127, 128, 2**14, 2**21, 2**63 - 1)),
                random.choice(("", "web", "x" * 255, "日本")),
            )
        )
        changed = bytearray(data)
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
        cut = data[: random.randrange(len(data))]
        stamps += [one, data, bytes(changed), cut, b"\x01" + (one or b"")]
    sizes = np.array([-1 if one is None else len(one) for one in stamps], np.int64)
    ends = np.maximum(sizes, 0).cumsum() if len(sizes) else sizes
    whole = b"".join([one or b"" for one in stamps])
    buffer = np.frombuffer(whole + bytes(LEAST_DATA * (not whole or len(whole) < 64)), np.uint8)
    found = read_stamps(buffer, ends - np.maximum(sizes, 0), sizes)
    for one, sender, sequence in zip(stamps, found.sender, found.sequence, strict=True):
        stamp = stamp_of(() if one is None else (("tm", one),))
        if isinstance(stamp, Stamp) and "\0" not in stamp.server:
            name = (stamp.partition, stamp.instance.hex(), stamp.server)
            assert (found.senders[sender], sequence) == (name, stamp.sequence)
        else:
            assert (sender, sequence) == (NO_STAMP if stamp is None else MALFORMED, 0)


@given(
    st.integers(0, 2**63 - 1),
    st.binary(max_size=20) | st.none(),
    st.binary(max_size=20) | st.none(),
)
def test_contents_hash_as_the_producer_hashes_them(
    sequence: int, key: bytes | None, value: bytes | None
) -> None:
    numbers = np.array([sequence], np.uint64)
    assert mixed(numbers).tolist() == [mix(sequence)]
    sums = np.array([checksum(key, value)], np.uint64)
    assert mixed(mixed(numbers) ^ sums).tolist() == [content(sequence, key, value)]


def test_a_record_without_a_stamp_lies_in_the_partition_that_holds_it() -> None:
    (batch,) = split_batches(encode_batch([(b"k", b"v", (), 1500)], base_offset=9))
    (run,) = counted(LogPiece(batch.columns())).runs()
    assert run.key == CellKey("t", 3, W, "", "")
    assert (run.first_sequence, run.messages, run.bytes, run.first_offset) == (None, 1, 2, 9)
    assert not list(counted(LogPiece(batch.columns(), aborted=True)).runs())


def test_an_offset_that_no_log_can_have_ends_nothing() -> None:
    """Only the first and the last offset of a batch are compared with its header."""
    rows: list[tuple[None, bytes, tuple[tuple[str, bytes], ...], int]] = [
        (None, b"v", (("tm", encode_stamp(Stamp(b"instance", 0, n, "web"))),), 7) for n in range(3)
    ]
    columns = split_batches(encode_batch(rows))[0].columns()
    columns.offsets = [0, 2**70, 2]
    (run,) = counted(LogPiece(columns)).runs()
    assert (run.messages, run.first_offset, run.last_offset) == (3, 0, 2**63 - 1)


@pytest.mark.slow
def test_a_cell_of_a_hundred_thousand_gaps_and_copies_takes_seconds() -> None:
    """Merging runs of a cell took four times as long for twice as many, and so would naming the
    copies of each run by looking at all of them."""
    made = CellCounter("t", 3, W, most_ranges=1 << 40)
    begun = time.process_time()
    for start in range(0, 100_000, 5_000):
        made.add(piece((("a", 3 * n) for n in range(start, start + 5_000)), offset=start))
    made.add(piece((("a", 3 * n) for n in range(0, 100_000, 20)), offset=100_000))
    (tally,) = made.tallies()
    assert (len(tally.ranges), tally.extra, len(tally.copies)) == (100_000, 5_000, 1_000)
    assert sum(len(run.copies) for run in made.runs()) == 1_000
    assert time.process_time() - begun < 10
