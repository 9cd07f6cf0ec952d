"""Committed records that a cut takes are saved before it: what is in the folder, how much of it is
kept, and what a full disk, a crash or a damaged batch changes."""

from __future__ import annotations

import uuid
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from replica_broker import CONFIG, ORDERS, TOPIC_ID, ReplicaBroker, batch

from tallymark.broker.replicas.cutting import GivenUp, Saving
from tallymark.broker.replicas.incidents import given_up
from tallymark.errors import KafkaError
from tallymark.log.cutting import Cut
from tallymark.log.saved_tails import read_tail, saved_tails
from tallymark.protocol.records.batch import split_batches
from tallymark.protocol.records.saved_tail import DESCRIPTION
from tallymark.testing.memory_files import MemoryFiles

EPOCHS = (0, 0, 1, 1, 1, 4, 4, 4, 4, 5)
"""Of ten batches of two records."""
BATCHES = [batch(2 * number, epoch) for number, epoch in enumerate(EPOCHS)]
ROOM = 10**6


def filled(committed: int = 12) -> ReplicaBroker:
    files = MemoryFiles()
    files.make_dirs("/d")
    files.sync_dir("/")
    broker = ReplicaBroker(files)
    broker.follow(*EPOCHS)
    broker.log.flush()
    broker.manager.checkpoint()
    broker.commit(committed)
    return broker


def cut(
    broker: ReplicaBroker,
    offset: int,
    *,
    room: int = ROOM,
    fully: bool = False,
    unclean: bool = False,
    unclean_epoch: int | None = None,
) -> list[GivenUp]:
    """Cut it, and return what is said to be given up."""
    told: list[GivenUp] = []
    epoch = -1 if unclean else unclean_epoch
    saving = Saving(3, room, lambda _: epoch, told.append)
    broker.run(lambda cutter, _: cutter.cut(broker.partition, offset, fully=fully), saving=saving)
    return told


def held(files: MemoryFiles, folder: str) -> bytes:
    """The batches of a tail, as a tool would read them."""
    names = [name for name in files.listdir(folder) if name.endswith(".log")]
    found = b"".join(files.read(f"{folder}/{name}") for name in names)
    for each in split_batches(found):
        each.check_crc()
    return found


def test_what_was_committed_is_saved_whole_before_it_is_cut() -> None:
    """KAFKA-10751: acknowledged records were gone from the one disk that had them."""
    broker = filled()
    (told,) = cut(broker, 7)
    broker.files.lose_unsynced()
    ((folder, tail),) = saved_tails(broker.files, "/d")
    assert folder == told.folder
    assert folder.startswith("/d/orders-0.")
    assert (tail.from_offset, tail.to_offset, tail.high_watermark) == (6, 20, 12)
    assert (tail.topic, tail.partition, tail.topic_id) == (*ORDERS, TOPIC_ID)
    assert (tail.broker, tail.cluster_id) == (3, "c")
    assert tail.epochs == ((1, 6), (4, 10), (5, 18))
    assert held(broker.files, folder) == b"".join(BATCHES[3:])
    assert tail.bytes == len(b"".join(BATCHES[3:]))


def test_what_was_not_committed_is_not_saved() -> None:
    broker = filled()
    assert cut(broker, 12) == []
    assert saved_tails(broker.files, "/d") == []


def test_after_an_unclean_election_all_is_saved() -> None:
    """The high watermark of a leader that was killed is that of a checkpoint, up to 5 s old: the
    records that it had acknowledged since would not have been saved."""
    broker = filled(committed=2)
    (told,) = cut(broker, 12, unclean=True)
    assert held(broker.files, told.folder) == b"".join(BATCHES[6:])


@pytest.mark.parametrize(
    ("offset", "unclean_epoch", "saved_from"),
    [
        (12, 4, None), (18, 4, None), (18, 5, None), (10, 4, None),
        (8, 4, 8), (12, 5, 12), (16, 6, 16), (12, -1, 12),
    ],
)  # fmt: skip
def test_what_was_written_since_an_unclean_election_is_saved_no_more_than_elsewhere(
    offset: int, unclean_epoch: int, saved_from: int | None
) -> None:
    """Seed 1 of a drill with three brokers: half a minute after an unclean election the leader was
    killed with one record that no follower had. The next one was elected from the ISR, so nothing
    was lost, but the cut of that record was reported as of records that were given up: so would
    each later kill of a leader have been, for ever."""
    broker = filled(committed=2)
    told = cut(broker, offset, unclean_epoch=unclean_epoch)
    assert [one.tail.from_offset for one in told] == ([] if saved_from is None else [saved_from])
    assert len(saved_tails(broker.files, "/d")) == len(told)


def test_what_was_committed_since_an_unclean_election_is_saved_for_that() -> None:
    broker = filled(committed=16)
    (told,) = cut(broker, 12, unclean_epoch=4)
    assert told.tail.from_offset == 12


@pytest.mark.parametrize("offset", [0, 5, 30])
def test_a_log_that_begins_anew_is_saved_from_its_start(offset: int) -> None:
    broker = filled()
    (told,) = cut(broker, offset, fully=True, unclean=True)
    assert (told.tail.from_offset, told.tail.to_offset) == (0, 20)
    assert held(broker.files, told.folder) == b"".join(BATCHES)


def test_two_unclean_elections_leave_two_tails() -> None:
    broker = filled()
    cut(broker, 16, unclean=True)
    broker.follow(7, 7)
    cut(broker, 14, unclean=True)
    first, second = (tail for _, tail in saved_tails(broker.files, "/d"))
    spans = {(one.from_offset, one.to_offset) for one in (first, second)}
    assert spans == {(16, 20), (14, 20)}


# --- a bounded number of bytes


def test_the_oldest_are_removed_for_newer_ones(caplog: pytest.LogCaptureFixture) -> None:
    broker = filled()
    told: list[GivenUp] = []
    room = 2 * len(BATCHES[0]) * 2
    for now in (1, 2, 3):
        broker.now_ms = now
        told += cut(broker, 16, unclean=True, room=room)
        broker.follow(6 + now, 6 + now)
    assert [folder for folder, _ in saved_tails(broker.files, "/d")] == [
        one.folder for one in told[1:]
    ]
    assert "they are the oldest and log.truncated.max.bytes is reached" in caplog.text
    assert told[0].folder in caplog.text


def test_one_that_is_larger_than_the_bound_is_refused_and_others_stay() -> None:
    broker = filled()
    (first,) = cut(broker, 18, unclean=True)
    (second,) = cut(broker, 2, room=first.tail.bytes)
    assert second.folder == ""
    assert "log.truncated.max.bytes allows" in second.why
    assert [folder for folder, _ in saved_tails(broker.files, "/d")] == [first.folder]
    assert broker.log.end_offset == 2


# --- disks that refuse


@pytest.mark.parametrize("what", ["0", DESCRIPTION])
def test_a_full_disk_does_not_hold_up_the_cut_nor_is_it_hidden(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = filled()
    broker.files.fail_next_write(f"-truncated/{what}")
    (told,) = cut(broker, 7)
    assert broker.log.end_offset == 6
    assert told.folder == ""
    assert "No space" in told.why
    assert "records are given up partition=orders-0 offsets=6-20" in caplog.text
    assert "NOT SAVED" in caplog.text
    assert given_up(told).why == told.why
    assert not [name for name in broker.files.names("/d") if name.endswith("-truncated")]


@pytest.mark.parametrize("number", range(16))
def test_whatever_fails_a_tail_is_whole_or_is_none(number: int) -> None:
    """Each of the first things that the disk is asked to do fails once; a tail that is there has
    all, and a cut that is done has a report that is true."""
    broker = filled()
    broker.files.fail_operation(number)
    told: list[GivenUp] = []
    with suppress(KafkaError):
        told = cut(broker, 7)
    there = saved_tails(broker.files, "/d")
    for folder, _ in there:
        assert held(broker.files, folder) == b"".join(BATCHES[3:])
    for one in told:
        assert bool(one.folder) == bool(there) != bool(one.why)
        assert broker.log.end_offset == 6
    assert told or broker.log.is_offline or broker.log.end_offset == 20


def test_what_a_crash_left_of_a_tail_is_removed_by_the_next_one() -> None:
    broker = filled()
    broker.files.make_dirs("/d/orders-0.0123-truncated")
    broker.files.overwrite("/d/orders-0.0123-truncated/00000000000000000006.log", BATCHES[3])
    (told,) = cut(broker, 7)
    found = [name for name in broker.files.names("/d") if name.endswith("-truncated")]
    assert found == [told.folder.removeprefix("/d/")]


def test_a_start_leaves_saved_records_alone(caplog: pytest.LogCaptureFixture) -> None:
    broker = filled()
    (told,) = cut(broker, 7)
    broker.files.kill()
    again = ReplicaBroker(broker.files)
    assert again.log.end_offset == 6
    assert held(again.files, told.folder) == b"".join(BATCHES[3:])
    assert "is not the folder of a partition" not in caplog.text


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"null", b'{"version": 2}', b'{"version": 1}', b"\xff"]
)
def test_a_description_that_is_none_names_no_tail(text: bytes) -> None:
    files = MemoryFiles()
    files.make_dirs("/d/orders-0.0123-truncated")
    files.overwrite(f"/d/orders-0.0123-truncated/{DESCRIPTION}", text)
    assert read_tail(files, "/d/orders-0.0123-truncated") is None
    assert saved_tails(files, "/d") == []


@given(st.lists(st.integers(0, 20), min_size=1, max_size=5), st.sampled_from(range(0, 21, 2)))
def test_whatever_is_cut_below_what_was_committed_is_saved(
    offsets: list[int], committed: int
) -> None:
    """Property: log and tails together have each batch that was there and was committed. A high
    watermark is where followers fetch next, so never within a batch."""
    broker = filled(committed)
    for offset in offsets:
        before, size = broker.partition.high_watermark, broker.log.size
        told = cut(broker, offset)
        lost = broker.log.size < size and broker.log.end_offset < before
        assert bool(told) == lost
    saved = [held(broker.files, folder) for folder, _ in saved_tails(broker.files, "/d")]
    kept = broker.log.end_offset
    for number, each in enumerate(BATCHES):
        if kept <= 2 * number < committed:
            assert any(each in one for one in saved)


def test_the_report_has_all_that_the_audit_shows() -> None:
    (told,) = cut(filled(), 7)
    line = given_up(told)
    assert (line.kind, line.broker, line.from_offset, line.to_offset) == ("given-up", 3, 6, 20)
    assert uuid.UUID(str(line.topic_id)) == TOPIC_ID
    assert line.folder == told.folder


def test_a_cut_as_a_value_says_where_it_begins() -> None:
    assert Cut(0, 6, 20, 14, 100, ()).first_offset == 6
    assert Cut(30, 30, 20, 20, 100, ()).first_offset == 0
    assert CONFIG.segment_bytes == 250  # several segments in these logs
