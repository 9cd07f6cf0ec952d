"""The journal: whatever moment a process dies at, the next start tells what it knew."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import random
import struct
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tallymark.errors import CODES, KafkaError
from tallymark_audit.events.claim_book import fold
from tallymark_audit.events.event_codec import decode_event
from tallymark_audit.events.events import AuditEvent
from tallymark_audit.model.cells import FOREVER, Block, Summary
from tallymark_audit.reporters.books.tally import Outcome, ReporterIdentity, Run, Tally, TallyKey
from tallymark_audit.reporters.journal import file as journal_file
from tallymark_audit.reporters.journal import layout, reading, replay
from tallymark_audit.reporters.journal.orphans import Replay, find_orphans
from tallymark_audit.reporters.journal.writer import Journal
from tallymark_audit.testing import FailingDisk

CLUSTER = "cluster-1"
IDENTITY = ReporterIdentity("producer-aa", "web", "app", "aa" * 8, 1000, 5)
Step = Callable[[Journal], object]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    one = Journal(tmp_path, CLUSTER, IDENTITY)
    assert one.kept
    yield one
    one.close(remove=False)


def run(first: int, last: int, topic: str = "t") -> Run:
    return Run(TallyKey(topic, 0, 0), first, last, 1, 2)


def accept(first: int, last: int, topic: str = "t") -> Step:
    return lambda journal: journal.accept(run(first, last, topic), 10, 77)


def settle(outcome: Outcome, first: int, last: int, topic: str = "t") -> Step:
    return lambda journal: journal.settle(TallyKey(topic, 0, 0), outcome, first, last, 78)


def report(journal: Journal) -> None:
    for event in journal.tally.report(80, 80):
        journal.reported()
        journal.tally.published(event.event_number)


def contents(*numbers: int) -> Step:
    some = [Block(number, 3, 2**64 - 1) for number in numbers]
    return lambda journal: journal.fold(TallyKey("t", 0, 0), some)


STEPS: list[Step] = [
    accept(0, 9),
    settle(Outcome.ACKNOWLEDGED, 0, 4),
    contents(*range(layout.BLOCKS_PER_ENTRY)),
    contents(3),
    lambda journal: journal.settle(TallyKey("t", 0, 0), Outcome.ACKNOWLEDGED, 8, 8, 79, 20),
    accept(0, 3, "x" * 249),
    report,
    settle(Outcome.FAILED, 5, 6),
    settle(Outcome.IN_DOUBT, 7, 7),
    report,
    settle(Outcome.ACKNOWLEDGED, 0, 3, "x" * 249),
    report,
    report,
    report,
    lambda journal: journal.drop(journal.tally.at_rest(10**9)),
    accept(10, 12),
    accept(4, 6, "x" * 249),
]


def state(tally: Tally) -> tuple[object, ...]:
    """All that a replay needs; carriers are not kept, everything is told again."""
    cells = {key: cell.report(key) for key, cell in tally.cells.items()}
    return cells, tally.next_event, tally.dropped_through


def test_tells_the_books_after_every_step(journal: Journal) -> None:
    for step in STEPS:
        step(journal)
        told = reading.read(journal.path.read_bytes())
        assert told.cluster == CLUSTER
        assert told.tally.identity == IDENTITY
        assert state(told.tally) == state(journal.tally)


def test_contents_take_as_many_entries_as_they_need(journal: Journal) -> None:
    accept(0, 9)(journal)
    contents(*range(5 * layout.BLOCKS_PER_ENTRY + 1))(journal)
    assert state(reading.read(journal.path.read_bytes()).tally) == state(journal.tally)


def test_a_death_at_any_byte_tells_the_books_of_some_step(journal: Journal) -> None:
    """The bytes of each write are cut anywhere, or only some of them arrive, in any order: what is
    read is the state before the step or after one of its entries, never anything else."""
    chance = random.Random(7)
    for step in STEPS:
        before = journal.path.read_bytes()
        known = [state(journal.tally)]
        step(journal)
        known.append(state(journal.tally))
        after = journal.path.read_bytes()
        changed = [at for at, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
        if not changed:
            continue
        first, last = changed[0], changed[-1]
        torn = [after[:cut] + before[cut:] for cut in range(first, last + 2)]
        for _ in range(20):
            some = bytearray(before)
            for at in changed:
                if chance.random() < 0.7:
                    some[at] = after[at]
            torn.append(bytes(some))
        for data in torn:
            told = state(reading.read(data).tally)
            # A report that is split, or several forgotten cells, may be cut between entries.
            assert told in known or told[0] == known[0][0]


def test_damage_elsewhere_is_told_from_a_cut(journal: Journal) -> None:
    for first in range(0, 2000, 10):
        accept(first, first + 9)(journal)
    data = bytearray(journal.path.read_bytes())
    end = len(bytes(data).rstrip(b"\0"))
    for at in range(0, end - layout.LONGEST_CUT - 100, 997):
        bad = bytearray(data)
        bad[at] ^= 0x40
        with pytest.raises(replay.BadJournalError):
            reading.read(bytes(bad))


def test_a_journal_of_an_older_run_is_read() -> None:
    """Before acknowledgements had entries of their own and cells had contents: of a journal of
    that time every entry means what it meant."""
    key = TallyKey("t", 0, 0)
    state_of_then = {
        "part": 0,
        "revision": 3,
        "count": 10,
        "bytes": 100,
        "accepted": [0, 9],
        "settled": {"1": [0, 4]},
        "min_timestamp": 1,
        "max_timestamp": 2,
        "skewed": 0,
        "carrier": 4,
        "touched": 77,
    }
    data = layout.header(CLUSTER, IDENTITY)
    data += layout.entry(layout.Kind.BOOKS, struct.pack("<QQq", 5, 1, -1))
    data += layout.cell_entry(0, key)
    data += layout.entry(layout.Kind.STATE, json.dumps(state_of_then).encode())
    data += layout.settle_entry(0, Outcome.ACKNOWLEDGED, 5, 7, 80)
    tally = reading.read(data + bytes(64)).tally
    told = tally.cells[key].report(key)
    assert (str(told.acknowledged), str(told.accepted), told.blocks) == ("0-7", "0-9", ())
    assert (told.revision, tally.next_event) == (4, 5)


def test_any_bytes_are_read_or_refused() -> None:
    chance = random.Random(3)
    whole = layout.header(CLUSTER, IDENTITY) + b"".join(
        layout.entry(layout.Kind(chance.randrange(1, 11)), chance.randbytes(40)) for _ in range(3)
    )
    for data in (b"", b"TMJRNL", chance.randbytes(200), whole, layout.MAGIC + b"\xff" * 8):
        with pytest.raises(replay.BadJournalError):
            reading.read(data)


def test_grows_in_steps_and_shrinks_when_rewritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_file, "STEP", 4096)
    journal = Journal(tmp_path, CLUSTER, IDENTITY)
    sizes = set[int]()
    for number in range(400):
        accept(number * 2, number * 2)(journal)  # holes: the books themselves grow
        sizes.add(journal.path.stat().st_size)
        if number % 100 == 0:
            assert state(reading.read(journal.path.read_bytes()).tally) == state(journal.tally)
    assert state(reading.read(journal.path.read_bytes()).tally) == state(journal.tally)
    assert all(size % 4096 == 0 for size in sizes)
    assert max(sizes) < 100_000
    assert list(tmp_path.glob("*.draft")) == []
    journal.close(remove=True)
    assert list(tmp_path.iterdir()) == []


def test_is_rewritten_in_the_midst_of_forgetting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal was full when cells were forgotten: it was rewritten without them, and then said
    to forget them, which made it unreadable, and with it the claims of a producer that died."""
    monkeypatch.setattr(journal_file, "STEP", 1024)
    for cells in range(4, 24):
        journal = Journal(tmp_path, CLUSTER, IDENTITY)
        for number in range(cells):
            accept(0, 9, f"t{number}")(journal)
            settle(Outcome.ACKNOWLEDGED, 0, 9, f"t{number}")(journal)
        for _ in range(5):
            report(journal)
        journal.drop(journal.tally.at_rest(10**9))
        assert not journal.tally.cells
        assert state(reading.read(journal.path.read_bytes()).tally) == state(journal.tally)
        journal.close(remove=True)


def test_a_journal_that_was_given_up_is_begun_again_with_the_whole_books(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FailingDisk(fail_at=4, for_ever=True)
    journal = Journal(tmp_path, CLUSTER, IDENTITY, disk=disk)
    accept(0, 9)(journal)
    assert not journal.kept
    for now in range(0, 10 * journal_file.MEND_MS, journal_file.MEND_MS // 10):
        journal.mend(now)
        if now == 4 * journal_file.MEND_MS:
            assert not journal.kept
            disk.fail_at = None
    assert journal.kept
    assert (journal.losses, caplog.text.count("no journal at")) == (3, 1)
    assert "is kept again" in caplog.text
    accept(10, 12)(journal)
    assert state(reading.read(journal.path.read_bytes()).tally) == state(journal.tally)
    journal.close(remove=True)
    journal.mend(10**9)
    assert list(tmp_path.iterdir()) == []


def test_books_too_large_for_a_journal_go_on_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(journal_file, "LIMIT", 2 * journal_file.STEP)
    journal = Journal(tmp_path, CLUSTER, IDENTITY)
    for number in range(40_000):
        journal.accept(run(number * 2, number * 2), 1, 1)
        if not journal.kept:
            break
    assert not journal.kept
    assert list(tmp_path.iterdir()) == []  # half a journal would lie
    assert caplog.text.count("no journal at") == 1
    journal.accept(run(10**6, 10**6), 1, 1)
    assert 10**6 in journal.tally.cells[TallyKey("t", 0, 0)].accepted.frozen()
    journal.close(remove=True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.chmod(0o500)
    journal = Journal(tmp_path / "deeper", CLUSTER, IDENTITY)
    accept(0, 9)(journal)
    assert not journal.kept
    assert caplog.text.count("no journal at") == 1


def test_a_file_in_the_folders_place_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The line said what would be lost, and not what to do about it."""
    (tmp_path / "journal").write_text("not a folder")
    journal = Journal(tmp_path / "journal", CLUSTER, IDENTITY)
    accept(0, 9)(journal)
    assert not journal.kept
    assert "no journal at" in caplog.text
    assert "give another folder with journal_dir" in caplog.text


# --- orphans ------------------------------------------------------------------------------------


class Topic:
    """An audit topic in memory; futures are finished by hand or at once."""

    def __init__(self, works: bool = True) -> None:
        self.events: list[AuditEvent] = []
        self.works = works
        self.held: list[Future[Any]] | None = None
        self.largest = 1 << 20

    def publish(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int | None
    ) -> Future[Any]:
        future: Future[Any] = Future()
        self.events.append(decode_event(value or b""))
        if self.held is not None:
            self.held.append(future)
        elif value and len(value) > self.largest:
            future.set_exception(KafkaError(CODES["MESSAGE_TOO_LARGE"]))
        elif self.works:
            future.set_result(None)
        else:
            future.set_exception(ConnectionError("away"))
        return future


def die(journal: Journal) -> None:
    """As kill -9 leaves it: the file is there, the lock is not."""
    journal.close(remove=False)


def test_a_living_run_is_left_alone(journal: Journal, tmp_path: Path) -> None:
    accept(0, 9)(journal)
    assert list(find_orphans(tmp_path, CLUSTER)) == []


def test_an_orphan_is_published_and_removed(journal: Journal, tmp_path: Path) -> None:
    for step in STEPS:
        step(journal)
    die(journal)
    topic = Topic()
    replay = Replay(tmp_path, CLUSTER, topic.publish)
    assert replay.start(100) == 1
    assert replay.replayed == 1
    assert list(tmp_path.iterdir()) == []
    (event,) = topic.events
    assert event.closed
    assert event.complete_through == FOREVER
    assert event.event_number == journal.tally.next_event
    claims = {key.topic[0]: claim for key, claim in fold(topic.events).claims().items()}
    assert str(claims["t"].in_doubt) == "7, 9-12"
    assert sum(claims["t"].latency[1::2]) == 1
    assert claims["t"].blocks[3].records == 6
    assert not claims["t"].pending
    assert not claims["x"].pending
    assert replay.start(101) == 0


def test_after_the_death_the_whole_stream_is_whole(journal: Journal, tmp_path: Path) -> None:
    """What the run published itself and what is replayed for it fit together without a gap."""
    published: list[AuditEvent] = []
    for number, step in enumerate(STEPS):
        step(journal)
        for event in journal.tally.report(100 + number, 0):
            journal.reported()
            journal.tally.published(event.event_number)
            published.append(event)
    accept(13, 20)(journal)
    die(journal)
    topic = Topic()
    Replay(tmp_path, CLUSTER, topic.publish).start(200)
    reporter = fold([*published, *topic.events]).reporters["producer-aa"]
    assert reporter.closed
    assert reporter.ahead == ()


def test_an_orphan_stays_until_it_has_arrived(
    journal: Journal, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    accept(0, 9)(journal)
    die(journal)
    topic = Topic(works=False)
    replay = Replay(tmp_path, CLUSTER, topic.publish)
    replay.start(100)
    assert replay.replayed == 0
    assert "not published yet" in caplog.text
    topic.works = True
    replay.start(200)
    first, second = topic.events
    assert first.event_number == second.event_number
    assert first.cells == second.cells
    assert list(tmp_path.iterdir()) == []


def test_an_orphan_too_large_for_the_cluster_is_made_smaller(
    journal: Journal, tmp_path: Path
) -> None:
    for first in range(0, 4000, 2):
        accept(first, first)(journal)
    die(journal)
    topic = Topic()
    topic.largest = 3000
    replay = Replay(tmp_path, CLUSTER, topic.publish)
    for now in range(100, 120):
        replay.start(now)
    assert replay.replayed == 1
    (claim,) = fold(topic.events[-1:]).claims().values()
    assert claim.summary == Summary(2000, 0, 0, 2000, 0)
    assert list(tmp_path.iterdir()) == []


def test_one_process_at_a_time_replays_an_orphan(journal: Journal, tmp_path: Path) -> None:
    accept(0, 9)(journal)
    die(journal)
    topic = Topic()
    topic.held = []
    one = Replay(tmp_path, CLUSTER, topic.publish)
    assert one.start(100) == 1
    assert one.start(101) == 0
    assert Replay(tmp_path, CLUSTER, topic.publish).start(102) == 0
    topic.held[0].set_result(None)
    assert one.replayed == 1


def test_other_clusters_journals_are_not_touched(journal: Journal, tmp_path: Path) -> None:
    accept(0, 9)(journal)
    die(journal)
    assert list(find_orphans(tmp_path, "another")) == []
    assert journal.path.exists()


def test_a_bad_journal_is_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "0011223344556677.journal").write_bytes(b"what is this")
    (tmp_path / "aa.draft").write_bytes(b"")
    assert list(find_orphans(tmp_path, CLUSTER)) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0011223344556677.bad"]
    assert "set aside" in caplog.text
    assert list(find_orphans(tmp_path / "nowhere", CLUSTER)) == []


def test_a_forked_child_does_not_hold_its_parents_journal(journal: Journal, tmp_path: Path) -> None:
    """The child inherits the lock's file; if it kept it, a killed parent would seem alive as long
    as the child lives, and nobody would publish its claims."""
    accept(0, 9)(journal)
    told, tell = os.pipe()
    finish, finished = os.pipe()
    with warnings.catch_warnings():
        # Other tests of this process may have left a thread that never ends (a library's).
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:  # pragma: no cover
        os.write(tell, b"1" if journal.kept else b"0")
        os.read(finish, 1)
        os._exit(0)
    try:
        assert os.read(told, 1) == b"0"
        assert journal.kept
        die(journal)
        file = os.open(journal.path, os.O_RDWR)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(file)
    finally:
        os.write(finished, b"x")
        os.waitpid(child, 0)
        for end in (told, tell, finish, finished):
            os.close(end)


def test_replay_says_whose_claims_it_published(
    journal: Journal, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    accept(0, 9)(journal)
    die(journal)
    with caplog.at_level(logging.INFO):
        Replay(tmp_path, CLUSTER, Topic().publish).start(1)
    assert "producer-aa on web" in caplog.text
