"""The follower's side of a partition."""

from __future__ import annotations

from tallymark.errors import CODES
from tallymark.replication.following import (
    Answer,
    Append,
    Ask,
    AskRange,
    CutTo,
    Discard,
    Following,
    LogView,
    SetAside,
    StartAt,
)
from tallymark.replication.truncation import EpochEnd

LOG = LogView(0, 10, ((0, 0), (2, 6)))


def following(high_watermark: int = 8) -> Following:
    return Following(("t", 0), leader=1, leader_epoch=3, high_watermark=high_watermark)


def asked(one: Following, log: LogView = LOG) -> Ask:
    ask = one.ask(log, 0)
    assert ask is not None
    return ask


def test_it_asks_with_its_end_and_the_epoch_of_its_last_record() -> None:
    assert asked(following()) == Ask(1, 3, 10, 2, 8, 0)
    assert asked(following(), LogView(5, 5, ())).last_epoch == -1


def test_an_epoch_without_a_record_goes_before_anything_is_appended() -> None:
    """Found by the simulation: a leader of epoch 6 died before it wrote. The next one had records
    of epoch 5 from there on; they were appended behind the start of epoch 6, and taken for records
    of epoch 6, which the leader never had: they were cut, though they were committed."""
    one = following()
    assert one.begin(LOG) is None
    step = one.begin(LogView(0, 10, ((0, 0), (2, 10))))
    assert step == CutTo(10, False, "epoch 2 has no record")


def test_records_are_appended_and_the_high_watermark_is_not_above_the_end() -> None:
    one = following()
    ask = asked(one)
    answer = Answer(high_watermark=14, log_start=2, first_offset=10)
    assert one.answered(ask, answer, LOG, 0) == Append(14, 2)
    one.is_at(LOG._replace(end=12), 14)
    assert one.high_watermark == 12


def test_the_high_watermark_of_a_new_leader_may_be_behind_and_takes_nothing_back() -> None:
    one = following(high_watermark=8)
    one.is_at(LOG, 5)
    assert one.high_watermark == 8


def test_an_answer_of_another_epoch_or_offset_is_thrown_away() -> None:
    """KAFKA-13266: the fetch offset was taken before the old fetcher had let go, and records were
    appended at an offset that was there already."""
    one = following()
    answer = Answer(high_watermark=14, first_offset=10)
    assert one.answered(asked(one), answer, LOG._replace(end=11), 0) == Discard()
    assert one.answered(asked(one)._replace(leader_epoch=2), answer, LOG, 0) == Discard()
    old = asked(one)
    one.leader_epoch = 4
    assert one.range_told(old, 0, 5, LOG, 0) == Discard()


def test_an_answer_of_before_a_cut_is_thrown_away_though_the_end_is_the_same_again() -> None:
    """Found by the simulation: an answer that the log parts at 10 was late. Meanwhile the follower
    had heard so on another connection, was cut to 10, had grown to 12 again, and was in the ISR:
    the late answer cut two committed records."""
    one = following()
    old = LogView(0, 12, ((0, 0), (2, 6)))
    ask = asked(one, old)
    grown = LogView(0, 12, ((0, 0), (2, 6), (3, 10)))
    assert one.answered(ask, Answer(parted=EpochEnd(2, 10)), grown, 0) == Discard()


def test_logs_that_part_are_cut_and_a_cut_below_the_high_watermark_is_named() -> None:
    one = following(high_watermark=8)
    step = one.answered(asked(one), Answer(parted=EpochEnd(2, 9)), LOG, 0)
    assert isinstance(step, CutTo)
    assert (step.to, step.below_high_watermark) == (9, False)
    deeper = one.answered(asked(one), Answer(parted=EpochEnd(1, 7)), LOG, 0)
    assert isinstance(deeper, CutTo)
    assert (deeper.to, deeper.below_high_watermark) == (6, True)
    assert deeper.why == "epoch 1 of broker 1 ends at 7; here the log ends at 10 in epoch 2"
    one.is_at(LOG._replace(end=6), -1)
    assert one.high_watermark == 6


def test_an_answer_that_leaves_nothing_to_cut_does_not_turn_in_circles() -> None:
    one = following(high_watermark=10)
    step = one.answered(asked(one), Answer(parted=EpochEnd(-1, -1)), LOG, 0)
    assert isinstance(step, SetAside)
    assert one.ask(LOG, 999) is None
    assert one.ask(LOG, 1_000) is not None


def test_a_leader_that_starts_behind_the_own_end_makes_the_log_begin_anew() -> None:
    one = following()
    out = Answer(error=CODES["OFFSET_OUT_OF_RANGE"], log_start=50)
    step = one.answered(asked(one), out, LOG, 0)
    assert isinstance(step, StartAt)
    assert step.offset == 50


def test_out_of_range_otherwise_asks_for_the_leaders_range() -> None:
    one = following()
    ask = asked(one)
    out = Answer(error=CODES["OFFSET_OUT_OF_RANGE"])
    assert one.answered(ask, out, LOG, 0) == AskRange()
    shorter = one.range_told(ask, 0, 7, LOG, 0)
    assert isinstance(shorter, CutTo)
    assert (shorter.to, shorter.below_high_watermark) == (7, True)
    later = one.range_told(ask, 20, 30, LOG, 0)
    assert isinstance(later, StartAt)
    assert later.offset == 20
    assert isinstance(one.range_told(ask, 0, 30, LOG, 0), SetAside)


def test_an_empty_log_behind_the_leaders_end_begins_where_the_leader_does() -> None:
    one = following(high_watermark=0)
    empty = LogView(40, 40, ())
    step = one.range_told(asked(one, empty), 5, 30, empty, 0)
    assert isinstance(step, StartAt)
    assert step.offset == 5


def test_an_empty_log_takes_the_whole_batch_that_spans_the_leaders_start() -> None:
    """Kafka's UnexpectedAppendOffset: DeleteRecords left the leader's start inside a batch. The
    follower began its log at the batch's first offset and asked from there, which the leader
    refused as out of range, and named its start: round and round, without a record."""
    one = following(high_watermark=0)
    empty = LogView(25, 25, ())
    answer = Answer(high_watermark=30, log_start=25, first_offset=20)
    assert one.answered(asked(one, empty), answer, empty, 0) == Append(30, 25)
    overlap = one.answered(asked(one), Answer(first_offset=9), LOG, 0)
    assert isinstance(overlap, SetAside)
    assert "sent a batch at 9, the log ends at 10" in overlap.why


def test_failures_set_aside_for_longer_and_longer_until_something_works() -> None:
    """KAFKA-8346: one bad partition ended the fetcher and with it all others."""
    one = following()
    refused = Answer(error=CODES["KAFKA_STORAGE_ERROR"])
    pauses: list[int] = []
    for _ in range(7):
        step = one.answered(asked_at(one, one.pause_until_ms), refused, LOG, 0)
        assert isinstance(step, SetAside)
        pauses.append(step.until_ms)
    assert pauses == [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]
    one.answered(asked_at(one, 30_000), Answer(high_watermark=10), LOG, 30_000)
    one.is_at(LOG, 10)
    step = one.answered(asked_at(one, 30_000), refused, LOG, 30_000)
    assert isinstance(step, SetAside)
    assert step.until_ms == 31_000


def test_a_batch_that_is_corrupt_again_and_again_is_asked_for_less_and_less_often() -> None:
    """The answer itself was good, so the pauses began anew with each: a megabyte every second, and
    a line in the log with each."""
    one = following()
    pauses: list[int] = []
    now_ms = 0
    for _ in range(4):
        one.answered(asked_at(one, now_ms), Answer(high_watermark=10, first_offset=10), LOG, now_ms)
        step = one.corrupt(10, 10, "its checksum is wrong", now_ms)
        pauses.append(step.until_ms - now_ms)
        now_ms = step.until_ms
    assert pauses == [1_000, 2_000, 4_000, 8_000]


def test_epochs_that_are_over_or_not_known_yet_are_named() -> None:
    one = following()
    over = one.answered(asked(one), Answer(error=CODES["FENCED_LEADER_EPOCH"]), LOG, 0)
    assert isinstance(over, SetAside)
    assert "epoch 3 is over" in over.why
    early = one.answered(asked_at(one, 9_000), Answer(error=CODES["UNKNOWN_LEADER_EPOCH"]), LOG, 0)
    assert isinstance(early, SetAside)
    assert "broker 1 does not know epoch 3 yet" in early.why


def test_a_corrupt_batch_is_named_with_its_leader() -> None:
    """Followers went round and round on it, and no line said whose disk was wrong."""
    step = following().corrupt(10, 10, "its checksum is wrong", 0)
    assert step.why == "batch at offset 10 from broker 1 in epoch 3: its checksum is wrong"
    assert step.code == CODES["CORRUPT_MESSAGE"]


def asked_at(one: Following, now_ms: int) -> Ask:
    ask = one.ask(LOG, now_ms)
    assert ask is not None
    return ask


def test_a_leader_that_does_not_know_its_epoch_yet_is_asked_again_soon() -> None:
    """A broker heard of a new leader before that leader did, and was told UNKNOWN_LEADER_EPOCH: the
    leader's producers waited a second for it."""
    one, now = following(), 0
    pauses: list[int] = []
    for _ in range(8):
        step = one.failed(CODES["UNKNOWN_LEADER_EPOCH"], "not yet", now)
        pauses.append(step.until_ms - now)
        now = step.until_ms
    assert pauses == [50, 100, 200, 400, 800, 1_000, 1_000, 1_000]
    one.is_at(LOG, -1)
    assert one.failed(CODES["CORRUPT_MESSAGE"], "bad", 0).until_ms == 1_000


def test_a_batch_that_came_corrupt_is_named_until_a_good_one_has_come() -> None:
    """The leader looked at nothing: its follower went round and round on a batch whose bytes on the
    leader's disk were wrong, though a third broker had it."""
    one = following()
    assert not asked(one).corrupt
    one.corrupt(10, 10, "its checksum is wrong", 0)
    for now_ms in (1_000, 2_000):
        ask = one.ask(LOG, now_ms)
        assert ask is not None
        assert (ask.offset, ask.corrupt) == (10, True)
    grown = LOG._replace(end=12)
    one.is_at(grown, 12)
    ask = one.ask(grown, 2_000)
    assert ask is not None
    assert not ask.corrupt


def test_batches_that_the_leader_cannot_read_or_that_begin_too_early_are_named_too() -> None:
    unreadable, early = following(), following()
    unreadable.answered(asked(unreadable), Answer(error=CODES["CORRUPT_MESSAGE"]), LOG, 0)
    early.answered(asked(early), Answer(first_offset=8), LOG, 0)
    for one in (unreadable, early):
        ask = one.ask(LOG, 60_000)
        assert ask is not None
        assert ask.corrupt
    refused = following()
    refused.answered(asked(refused), Answer(error=CODES["NOT_LEADER_OR_FOLLOWER"]), LOG, 0)
    ask = refused.ask(LOG, 60_000)
    assert ask is not None
    assert not ask.corrupt


def test_a_log_that_was_found_corrupt_here_is_copied_again_from_there() -> None:
    step = following(high_watermark=8).begin(LOG._replace(corrupt_from=7))
    assert step == CutTo(7, True, "the batch at offset 7 is corrupt on this disk")
    deleted = LogView(5, 10, LOG.epochs, corrupt_from=4)
    assert following().begin(deleted) is None, "retention has deleted it"


def test_a_member_of_the_isr_keeps_a_corrupt_log_as_it_is() -> None:
    """A leader that found its log corrupt, and was replaced before it could resign, is in the ISR
    still: cut, and elected again, it would lead without what is committed behind the batch."""
    assert following().begin(LOG._replace(corrupt_from=7), is_member=True) is None
