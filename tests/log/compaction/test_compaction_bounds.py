"""What one batch, and one log, may cost a compaction: memory, time, and the others."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from compacting import CONFIG, FOLDER, closed, compact, contents, open_log, put, read_all
from hostile_batches import sealed
from hypothesis import given
from hypothesis import strategies as st

from tallymark.broker.maintenance.cleaner_turns import MOST, Turns
from tallymark.log import Log, LogConfig
from tallymark.log.compaction.job import dirt_of, task_of
from tallymark.log.compaction.offset_map import ENTRY_BYTES
from tallymark.log.compaction.plan import Dirt
from tallymark.log.compaction.swap import swap
from tallymark.log.compaction.task import Cleaned, CompactionTask, Summary
from tallymark.log.compaction.worker import Steps
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark.protocol.records.columns import STRETCH
from tallymark.protocol.records.compression import codec_number, compress
from tallymark.protocol.varint import encode_varint
from tallymark.testing.memory_files import MemoryFiles

WIDE = replace(CONFIG, segment_bytes=1 << 20)


def unlooked(log: Log, data: bytes) -> None:
    """Append what is not looked at: the topic is made compacted afterwards."""
    config = log.config
    log.config = replace(config, compact=False, record_validation="header")
    log.append(bytearray(data), 0, 1)
    log.config = config


def holding(size: int, codec: str) -> bytes:
    """A batch of one record, whose key is ``k`` and whose value is so many zeros."""
    record = b"\0\0\0\x02k" + encode_varint(size) + bytes(size) + b"\0"
    packed = bytes(compress(codec, encode_varint(len(record)) + record))
    return sealed(packed, codec=codec_number(codec))


@pytest.mark.slow
def test_a_batch_of_very_many_records_is_never_held_whole() -> None:
    """Somebody wrote batches of a megabyte that hold a million records of some bytes each. All of a
    batch's records became objects, 25 times what they are unpacked: the compaction of the broker
    took the memory of the machine."""
    files = MemoryFiles()
    log = open_log(files, WIDE)
    records = [(b"k%d" % (number % 7), b"", (), 5) for number in range(60_000)]
    put(log, (b"k0", b"old"))
    log.append(encode_batch(records, compression="zstd"), 0, 1)
    put(log, (b"k6", b"new"))
    closed(log)
    unpacked = sum(len(key) + 9 for key, *_ in records)
    tracemalloc.start()
    try:
        summary = compact(files, log)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (summary.records, summary.removed) == (60_002, 60_002 - 7)
    assert contents(log) == {**{b"k%d" % n: b"" for n in range(6)}, b"k6": b"new"}
    assert peak < 8 * unpacked


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
@pytest.mark.slow
def test_a_batch_that_holds_too_much_stays_whole_and_the_rest_is_compacted(codec: str) -> None:
    """Batches of a few kilobytes that unpack to 200 MB stood in a topic that was made compacted:
    each run opened them one after the other, up to 256 MiB, and held that twice."""
    files = MemoryFiles()
    log = open_log(files, WIDE)
    put(log, (b"a", b"1"), (b"b", b"1"))
    large = holding(70 << 20, codec)
    unlooked(log, large)
    put(log, (b"a", b"2"), (b"k", b"2"))
    closed(log)
    tracemalloc.start()
    try:
        summary = compact(files, log)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (summary.too_large, summary.undecodable, summary.last_whole) == (1, 0, 2)
    batches = split_batches(log.read(0, 1 << 20).read())
    assert [batch.header.base_offset for batch in batches] == [0, 2, 3]
    assert bytes(batches[1].data)[21:] == large[21:]
    assert [record.key for record in batches[0].records()] == [b"b"]
    assert peak < 70 << 21


def test_a_batch_with_more_keys_than_the_map_has_room_for_is_mapped_part_by_part() -> None:
    """Of a batch with three million keys all went into the map, 600 MB of them, whatever
    ``log.cleaner.dedupe.buffer.size`` said: an empty map took any number."""
    files = MemoryFiles()
    log = open_log(files, WIDE)
    put(log, *[(b"k%02d" % number, b"old") for number in range(50)])
    put(log, *[(b"k%02d" % number, b"new") for number in range(50)])
    closed(log)
    until, rounds = -1, 0
    while until < log.end_offset:
        reached = compact(files, log, clean_until=until, map_bytes=ENTRY_BYTES * 7).until
        assert until < reached <= until + 8
        until, rounds = reached, rounds + 1
    assert rounds == 15
    assert [(r.offset, r.value) for r in read_all(log)] == [(50 + n, b"new") for n in range(50)]


def test_a_tombstone_behind_the_end_of_the_map_stays_though_its_batch_has_expired() -> None:
    """The map ends in the middle of a batch, before its tombstone: whoever removed that now would
    bring the older value back, which nothing says is replaced."""
    files = MemoryFiles()
    log = open_log(files, WIDE)
    put(log, (b"x", b"1"))
    put(log, *[(b"k%d" % number, b"1") for number in range(8)], (b"x", None))
    closed(log)
    until, now = -1, 0
    for _ in range(4):
        until = compact(files, log, clean_until=until, map_bytes=ENTRY_BYTES * 3, now_ms=now).until
        now += 1000
        found = [(record.key, record.value) for record in read_all(log)]
        assert (b"x", b"1") not in found or (b"x", None) in found, f"a deleted value: {until}"
    assert until == log.end_offset
    assert contents(log) == {b"k%d" % number: b"1" for number in range(8)}


def test_nothing_is_replaced_by_a_batch_that_does_not_decode_to_its_end() -> None:
    """Its first thousands of records are fine. No reader gets any of them, so what they would
    replace must stay."""
    files = MemoryFiles()
    log = open_log(files, WIDE)
    put(log, (b"k", b"1"))
    count = 2 * STRETCH
    good = encode_batch([(b"k", b"2", (), 5)] * count)
    unlooked(log, sealed(good[61:-3] + b"\xff\xff\xff", last_delta=count - 1, count=count))
    closed(log)
    summary = compact(files, log)
    assert (summary.undecodable, summary.last_whole) == (1, 1)
    first, second = split_batches(log.read(0, 1 << 20).read())
    assert [record.value for record in first.records()] == [b"1"]
    assert second.header.record_count == count


# --- turns


def test_two_compactions_take_turns() -> None:
    """A topic that took minutes to compact kept all others from it: one log was compacted after the
    other."""
    files = MemoryFiles()
    logs: dict[str, Log] = {}
    for folder in ("/d/long-0", "/d/short-0"):
        files.make_dirs(folder)
        logs[folder] = Log.open(files, folder, CONFIG, clean=True, now_ms=0)
        for number in range(40 if "long" in folder else 4):
            put(logs[folder], (b"a", b"%d" % number))
        closed(logs[folder])
    steps = Steps(files, turn_s=0)
    turns = dict.fromkeys(logs, 0)
    answers = {folder: begin(steps, log) for folder, log in logs.items()}
    ended: list[str] = []
    while answers:
        for folder, answer in list(answers.items()):
            if "summary" in answer:
                ended.append(folder)
                del answers[folder]
                continue
            if "cleaned" in answer:
                fields = answer["cleaned"]
                sources = tuple(fields["sources"])
                assert swap(logs[folder], Cleaned(sources, fields["end_offset"], fields["size"]))
            turns[folder] += 1
            answers[folder] = steps.answer({"do": "next", "directory": folder})
            assert "error" not in answers[folder]
    assert ended == ["/d/short-0", "/d/long-0"]
    assert turns["/d/long-0"] > 40 > 12 > turns["/d/short-0"]
    assert [record.value for record in read_all(logs["/d/long-0"])] == [b"39"]
    assert [record.value for record in read_all(logs["/d/short-0"])] == [b"3"]


def test_a_compaction_that_is_given_up_leaves_nothing() -> None:
    files = MemoryFiles()
    log = open_log(files)
    for number in range(20):
        put(log, (b"a", b"%d" % number))
    closed(log)
    steps = Steps(files, turn_s=0)
    answer = begin(steps, log)
    while not any(name.endswith(".cleaned") for name in files.listdir(FOLDER)):
        assert answer == {"paused": {}}
        answer = steps.answer({"do": "next", "directory": FOLDER})
    steps.answer({"do": "drop", "directory": FOLDER})
    assert not any(name.endswith(".cleaned") for name in files.listdir(FOLDER))
    assert "AssertionError" in steps.answer({"do": "next", "directory": FOLDER})["error"]
    assert isinstance(compact(files, log), Summary)


def begin(steps: Steps, log: Log) -> dict[str, Any]:
    task: CompactionTask = task_of(log, dirt_of(log, -1, 0), 0, 1 << 20)
    return steps.answer({"do": "begin", "task": task.to_json()})


def test_all_compactions_share_one_budget_and_a_topic_has_one() -> None:
    turns, budget = Turns(), 128 << 20
    for log in logs("a-0", "b-0", "c-1", "d-2").values():
        assert turns.has_room
        turns.begin(log, DIRT, budget)
    assert len(turns) == MOST
    assert not turns.has_room
    assert turns.topics == {"a", "b", "c", "d"}
    order = []
    for _ in range(8):
        order.append(turns.next())
        turns.end_turn()
    assert [run.topic for run in order] == ["b", "a", "d", "c"] * 2, "one after the other"
    shares = [run.map_bytes for run in sorted(order[:4], key=lambda run: run.topic)]
    assert shares[0] == 96 << 20
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) <= budget
    turns.end(order[0])
    assert turns.has_room


def test_a_topic_that_is_dirty_again_and_again_does_not_take_the_turns_of_another() -> None:
    """Each compaction began with the next turn. One topic had batches of 900,000 records, so that
    each of its compactions took one long turn and it was dirty again: of another topic, which had
    had the first of its two turns, nothing was cleaned for 60 s, until the first was clean."""
    log_of, turns = logs("honest-0", "hostile-0"), Turns()
    turns.begin(log_of["honest-0"], DIRT, 1 << 20)
    turns.end_turn()
    had: list[str] = []
    while had[-1:] != ["honest"]:
        if "hostile" not in turns.topics:
            turns.begin(log_of["hostile-0"], DIRT, 1 << 20)
        run = turns.next()
        had.append(run.topic)
        assert len(had) < 5, had
        turns.end(run)
    assert had == ["hostile", "honest"]


@given(st.integers(0, 2**32))
def test_each_compaction_has_a_turn_before_long(seed: int) -> None:
    """Whatever begins and ends meanwhile: nothing that began later goes before it twice."""
    random, turns = Random(seed), Turns()
    log_of = logs(*(f"{name}-0" for name in "abcdef"))
    waited: dict[str, int] = {}
    for _ in range(100):
        idle = [log for name, log in log_of.items() if name[0] not in turns.topics]
        if turns.has_room and (not len(turns) or random.random() < 0.7):
            turns.begin(random.choice(idle), DIRT, 1 << 20)
        run = turns.next()
        waited = {topic: waited.get(topic, -1) + 1 for topic in turns.topics} | {run.topic: 0}
        assert max(waited.values()) < 2 * MOST
        if random.random() < 0.5:
            turns.end(run)
            del waited[run.topic]
        else:
            turns.end_turn()


DIRT = Dirt(0, 10, 0, 10, 0)


def logs(*names: str) -> dict[str, Log]:
    """Empty logs, by their names."""
    files = MemoryFiles()
    found: dict[str, Log] = {}
    for name in names:
        files.make_dirs(f"/d/{name}")
        found[name] = Log.open(files, f"/d/{name}", LogConfig(), clean=True, now_ms=0)
    return found
