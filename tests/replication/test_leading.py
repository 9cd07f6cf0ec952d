"""The leader's side of a partition: high watermark, who is in sync, what the ISR should be."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from one_leader import BROKERS, EPOCHS, LAG_MS, fetch, leader, wish, written

from tallymark.errors import CODES, KafkaError
from tallymark.replication.leading import Leader
from tallymark.replication.model import (
    Assignment,
    BrokerView,
    PartitionState,
    Tail,
)
from tallymark.replication.progress import FollowerFetch
from tallymark.replication.truncation import EpochEnd


def test_the_high_watermark_is_the_least_end_of_the_isr() -> None:
    one = leader()
    one.appended(20)
    fetch(one, 2, 20)
    assert one.high_watermark == 5  # the end of broker 3 is not known
    fetch(one, 3, 15)
    assert one.high_watermark == 15
    fetch(one, 3, 20)
    assert one.high_watermark == 20


def test_a_follower_of_which_nothing_is_known_holds_the_high_watermark() -> None:
    """A new leader knows no ends. To take a follower it has not heard of for one with everything
    would expose records that only the leader has."""
    one = leader(isr=(1, 2))
    one.appended(20)
    assert one.high_watermark == 5
    assert not one.is_epoch_committed
    fetch(one, 2, 12)
    assert one.high_watermark == 12
    assert one.is_epoch_committed


def test_the_high_watermark_never_falls() -> None:
    """A fetch that was late on another connection shows an older end."""
    one = leader(isr=(1, 2))
    one.appended(20)
    fetch(one, 2, 18)
    fetch(one, 2, 14)
    assert one.high_watermark == 18


def test_a_leader_alone_commits_what_it_appends() -> None:
    one = leader(isr=(1,), replicas=(1,), min_insync=2)
    assert one.high_watermark == 10
    one.appended(20)
    assert one.high_watermark == 20
    assert one.is_enough
    assert one.wish() is None


def test_with_flush_before_expose_only_what_is_flushed_counts() -> None:
    one = leader(isr=(1, 2))
    one.appended(20, exposed=14)
    fetch(one, 2, 20)
    assert one.high_watermark == 14
    one.appended(20, exposed=20)
    assert one.high_watermark == 20


def test_a_new_leader_gives_the_isr_the_whole_lag_time() -> None:
    """Fluss 3698: a new leader knew no time at which its followers had been caught up, took that
    for ages ago, and removed them all at its first look."""
    one = leader(now_ms=1_000_000)
    one.appended(20)
    one.tick(1_000_000 + LAG_MS)
    assert one.wish() is None
    assert one.in_sync == 3
    one.tick(1_000_000 + LAG_MS + 1)
    assert len(wish(one).state.isr) == 2  # not below the minimum, though both are overdue
    assert one.in_sync == 1


def test_a_follower_under_steady_writes_is_in_sync_though_it_never_asks_for_the_end() -> None:
    one = leader(isr=(1, 2), min_insync=1)
    end = 20
    for now in range(0, 100_000, 1_000):
        one.appended(end + 10)
        fetch(one, 2, end, now)
        end += 10
    one.tick(100_000)
    assert one.in_sync == 2
    assert one.wish() is None


def test_a_follower_that_stays_behind_leaves_with_who_and_how_far() -> None:
    one = leader()
    one.appended(20)
    for now in range(0, 40_000, 1_000):
        fetch(one, 2, 20, now)
        fetch(one, 3, 12, now)
    one.tick(40_000)
    change = wish(one)
    assert (change.expected, change.state.isr) == (7, (1, 2))
    assert change.why == "broker 3 is 8 behind"
    (lag,) = one.lagging()
    assert (lag.broker, lag.records, lag.live) == (3, 8, True)


def test_the_high_watermark_goes_on_when_a_shrink_is_committed() -> None:
    """KAFKA-13091: it was computed after fetches and appends only. When the last follower that was
    behind had left the ISR, acks=all waited until somebody wrote again."""
    one = leader()
    one.appended(20)
    fetch(one, 2, 20, 40_000)
    fetch(one, 3, 12, 40_000)
    one.tick(40_000)
    change = wish(one)
    assert one.high_watermark == 12  # not before it is written
    one.answered(written(change), 40_010)
    assert one.high_watermark == 20


def test_while_an_expansion_is_under_way_who_joins_holds_the_high_watermark() -> None:
    """KIP-497: the node may hold the new ISR already, and a controller may elect from it."""
    one = leader(isr=(1, 2))
    one.appended(20)
    fetch(one, 2, 12)
    fetch(one, 3, 12)
    change = wish(one)
    assert change.state.isr == (1, 2, 3)
    assert change.joining == {3: 30}
    one.tick(LAG_MS * 2)  # broker 3 is not caught up any more
    fetch(one, 2, 20, LAG_MS * 2)
    assert one.high_watermark == 12


def test_while_the_outcome_is_unknown_both_isrs_count_and_nothing_else_is_wished() -> None:
    """KAFKA-2729: a write whose outcome was unknown was taken for failed, and the cached version
    of the node was wrong for hours."""
    one = leader()
    one.appended(20)
    fetch(one, 2, 20, 40_000)
    fetch(one, 3, 12, 40_000)
    one.tick(40_000)
    change = wish(one)
    one.answered(None, 40_010)
    one.tick(41_000)
    assert one.wish() is None
    fetch(one, 2, 20, 41_000)
    assert one.high_watermark == 12
    one.answered(written(change), 41_000)  # read again: it was written
    assert one.high_watermark == 20


def test_a_read_that_finds_the_old_node_does_not_take_the_proposal_back() -> None:
    """The write may still be on its way to ZooKeeper's leader. Only a greater version ends it."""
    one = leader(isr=(1, 2))
    one.appended(20)
    fetch(one, 2, 12)
    fetch(one, 3, 12)
    first = wish(one)
    one.answered(None, 0)
    one.answered(one.state, 0)
    one.tick(LAG_MS * 2)
    fetch(one, 2, 20, LAG_MS * 2)
    assert one.high_watermark == 12
    again = wish(one)
    assert again.expected == first.expected
    one.seen(written(first), LAG_MS * 2)
    assert one.state.isr == (1, 2, 3)


def test_an_unknown_outcome_is_settled_by_writing_the_same() -> None:
    """The broker that was to join is gone for an hour. Nothing else would raise the version, and
    the high watermark would wait for a broker that is not in the ISR."""
    one = leader(isr=(1, 2))
    one.appended(20)
    fetch(one, 2, 12)
    fetch(one, 3, 12)
    wish(one)
    one.answered(None, 0)
    one.answered(one.state, 0)
    one.brokers_changed({1: BROKERS[1], 2: BROKERS[2]}, 0)
    fetch(one, 2, 20)
    assert one.high_watermark == 12
    same = wish(one)
    assert same.state.isr == (1, 2)
    one.answered(written(same), 0)
    assert one.high_watermark == 20
    assert one.wish() is None


def test_a_refused_expansion_holds_nothing() -> None:
    """The joining broker registered again before the write: its log may be another one."""
    one = leader(isr=(1, 2))
    one.appended(20)
    fetch(one, 2, 12)
    fetch(one, 3, 12)
    wish(one)
    fetch(one, 2, 20)
    assert one.high_watermark == 12
    one.refused(one.state, 0, stale={3: 30})
    fetch(one, 2, 20)
    assert one.high_watermark == 20
    fetch(one, 3, 20)
    assert one.wish() is None  # not with each fetch again
    one.brokers_changed({1: BROKERS[1], 2: BROKERS[2], 3: BrokerView(3, 31)}, 0)
    fetch(one, 3, 20, epoch=31)
    assert wish(one).joining == {3: 31}


def test_a_refusal_of_an_old_registration_does_not_bar_the_new_one() -> None:
    """Found by the simulation: the first fetch of the new registration came before the refusal."""
    one = leader(isr=(1, 2))
    fetch(one, 3, 10)
    wish(one)
    one.brokers_changed({**BROKERS, 3: BrokerView(3, 31)}, 0)
    fetch(one, 3, 10, epoch=31)
    one.refused(one.state, 0, stale={3: 30})
    assert wish(one).joining == {3: 31}


def test_who_joins_has_what_is_committed_and_the_start_of_the_epoch() -> None:
    one = leader(isr=(1, 2), end=10, high_watermark=5)
    one.appended(20)
    fetch(one, 2, 11)
    fetch(one, 3, 10)  # the start of the epoch, but below the high watermark
    assert one.high_watermark == 11
    assert one.wish() is None
    lagging_watermark = leader(isr=(1, 2), end=10, high_watermark=5)
    fetch(lagging_watermark, 3, 9)  # above the high watermark, below the start of the epoch
    assert lagging_watermark.wish() is None
    fetch(lagging_watermark, 3, 10)
    assert wish(lagging_watermark).state.isr == (1, 2, 3)


def test_while_too_few_are_in_sync_a_joiner_must_be_caught_up() -> None:
    """KAFKA-19996: a broker joined at the high watermark, far behind the end; the ISR was above
    its minimum again, acks=all was accepted, and waited until the new member had fetched it all."""
    one = leader(isr=(1, 2), high_watermark=10)
    one.appended(1_000)
    one.brokers_changed({1: BROKERS[1], 3: BROKERS[3]}, 0)
    assert one.in_sync == 1
    fetch(one, 3, 500)
    assert one.wish() is None
    fetch(one, 3, 1_000)
    change = wish(one)
    assert change.state.isr == (1, 3)  # broker 2 is not registered: it makes place
    assert change.why == "broker 3 is in sync at offset 1000; broker 2 is not registered"


def test_a_broker_that_leaves_does_not_join_and_holds_nobody_up() -> None:
    """KAFKA-15021: brokers that were shutting down were caught up and could not join; the high
    watermark waited for them until the lag time was over."""
    one = leader(isr=(1, 2))
    one.appended(20)
    leaving = {**BROKERS, 3: BrokerView(3, 30, leaving=True)}
    fetch(one, 3, 20, 0)
    one.appended(30)
    fetch(one, 2, 30, 10)
    assert one.high_watermark == 20  # it is about to join
    one.brokers_changed(leaving, 20)
    assert one.high_watermark == 30
    fetch(one, 3, 30, 30)
    assert one.wish() is None


def test_a_suspect_that_the_controller_took_out_joins_after_its_next_fetch_only() -> None:
    """A process was killed, and the controller took it out of the ISR before its session ended. For
    the leader it still was registered and had everything: it took the dead one in again, the
    controller out again, until the session ended."""
    one = leader()
    fetch(one, 2, 10)
    fetch(one, 3, 10)
    state = replace(one.state, isr=(1, 2), version=one.state.version + 1)
    one.seen(state, now_ms=10)
    one.tick(1_000)
    assert one.wish() is None
    one.appended(11)
    fetch(one, 2, 11)
    assert one.high_watermark == 11, "it is not waited for"
    fetch(one, 3, 11)
    assert wish(one).state.isr == (1, 2, 3), "it lives"


def test_a_fetch_of_an_earlier_registration_does_not_count() -> None:
    """KIP-903: a broker that came back under the same id with an emptier disk is another one."""
    one = leader(isr=(1, 2))
    one.appended(20)
    one.brokers_changed({**BROKERS, 2: BrokerView(2, 21)}, 0)
    with pytest.raises(KafkaError) as refused:
        fetch(one, 2, 20, epoch=20)
    assert refused.value.code == CODES["STALE_BROKER_EPOCH"]
    assert one.high_watermark == 5
    fetch(one, 2, 20, epoch=21)
    assert one.high_watermark == 20


def test_a_registration_that_is_not_known_yet_forgets_the_earlier_ones_end() -> None:
    one = leader()
    one.appended(30)
    fetch(one, 2, 30)
    fetch(one, 2, 12, epoch=21)
    fetch(one, 3, 30)
    assert one.high_watermark == 12
    with pytest.raises(KafkaError):
        fetch(one, 2, 30, epoch=20)
    assert one.in_sync == 2  # broker 2 does not count as live until its registration is known


def test_a_broker_that_registered_again_holds_the_high_watermark_until_it_fetches() -> None:
    one = leader(isr=(1, 2))
    one.appended(20)
    fetch(one, 2, 15)
    one.brokers_changed({**BROKERS, 2: BrokerView(2, 21)}, 0)
    one.appended(30)
    assert one.high_watermark == 15


def test_the_isr_never_gets_smaller_than_its_minimum_and_the_high_watermark_waits() -> None:
    """KIP-966, the last replica standing: had the ISR shrunk to the leader alone, its power failure
    would have taken committed records with it."""
    one = leader(isr=(1, 2, 3))
    one.appended(20)
    fetch(one, 2, 20)
    fetch(one, 3, 20)
    one.brokers_changed({1: BROKERS[1]}, 50_000)
    assert (one.in_sync, one.is_enough) == (1, False)
    one.appended(30)
    one.tick(100_000)
    change = wish(one)
    assert change.state.isr == (1, 2) or change.state.isr == (1, 3)
    one.answered(written(change), 100_000)
    one.tick(200_000)
    assert one.wish() is None
    assert one.high_watermark == 20


def test_an_isr_that_incomplete_logs_made_too_small_commits_nothing() -> None:
    one = leader(isr=(1,), incomplete={2: Tail(0, 8), 3: Tail(0, 4)})
    one.appended(20)
    assert one.high_watermark == 5
    fetch(one, 2, 20)
    change = wish(one)
    assert change.state.isr == (1, 2)
    assert change.state.incomplete == {}  # two have a whole log: no tail is needed any more
    one.answered(written(change), 0)
    assert one.high_watermark == 20


def test_a_log_that_parts_is_told_where_and_counts_for_nothing() -> None:
    one = leader(isr=(1, 2))
    one.appended(20)
    assert one.fetched(FollowerFetch(2, 20, 15, 2), EPOCHS, 0) == EpochEnd(0, 10)
    assert one.high_watermark == 5
    assert one.fetched(FollowerFetch(2, 20, 25, 3), EPOCHS, 0) == EpochEnd(3, 20)
    assert one.high_watermark == 5


@pytest.mark.parametrize(
    ("told", "code"),
    [
        (FollowerFetch(2, 20, 21, -1), "OFFSET_OUT_OF_RANGE"),
        (FollowerFetch(2, 20, 15, 4), "OFFSET_OUT_OF_RANGE"),
        (FollowerFetch(9, 20, 15, 3), "UNKNOWN_LEADER_EPOCH"),
        (FollowerFetch(2, 19, 15, 3), "STALE_BROKER_EPOCH"),
    ],
)
def test_fetches_that_count_for_nothing(told: FollowerFetch, code: str) -> None:
    one = leader(isr=(1, 2))
    one.appended(20)
    with pytest.raises(KafkaError) as refused:
        one.fetched(told, EPOCHS, 0)
    assert refused.value.code == CODES[code]
    assert refused.value.context.startswith("t-0: ")
    assert one.high_watermark == 5


def test_nothing_moves_after_the_lead_is_lost() -> None:
    one = leader(isr=(1, 2))
    one.appended(20)
    one.seen(PartitionState(2, 4, (1, 2), version=8), 0)
    assert one.is_lost
    fetch(one, 2, 20)
    one.tick(100_000)
    assert one.high_watermark == 5
    assert one.wish() is None


def test_older_news_of_the_node_are_ignored() -> None:
    one = leader(isr=(1, 2))
    one.seen(PartitionState(1, 3, (1,), version=6), 0)
    assert one.state.isr == (1, 2)


def test_delete_records_waits_for_the_followers_that_are_live() -> None:
    one = leader()
    assert one.least_log_start is None
    for broker, start in ((2, 4), (3, 2)):
        one.fetched(FollowerFetch(broker, broker * 10, 10, 0, start), EPOCHS, 0)
    assert one.least_log_start == 2
    one.brokers_changed({2: BROKERS[2]}, 0)
    assert one.least_log_start == 4


def test_a_replica_that_is_added_joins_and_one_that_is_taken_off_is_forgotten() -> None:
    one = leader(isr=(1, 2), replicas=(1, 2))
    fetch(one, 2, 10)
    one.configured(Assignment((1, 2, 4), adding=(4,)), 2, 0)
    fetch(one, 4, 10)
    change = wish(one)
    assert change.state.isr == (1, 2, 4)
    one.answered(written(change), 0)
    one.seen(replace(written(change), isr=(1, 4), version=9), 0)
    one.configured(Assignment((1, 4)), 2, 0)
    with pytest.raises(KafkaError):
        fetch(one, 2, 10)
    one.appended(20)
    fetch(one, 4, 20)
    assert one.high_watermark == 20


# --- a session repeats what it does not name


@dataclass
class Session:
    """When its last request came."""

    ms: int


def heard_at(one: Leader, broker: int, now_ms: int) -> Session:
    """The follower has all, and asks for it in a session."""
    heard = Session(now_ms)
    told = FollowerFetch(broker, broker * 10, one.end, 0, heard=heard)
    assert one.fetched(told, EPOCHS, now_ms) is None
    return heard


def test_a_follower_whose_session_goes_on_has_the_whole_lag_time_after_an_append() -> None:
    """An hour without a record, in which its requests name nothing: at the next record it would
    have been out of sync at once, and acks=all refused."""
    one = leader(end=10)
    hour = 3_600_000
    for broker in (2, 3):
        heard_at(one, broker, 0).ms = hour
    one.appended(11)
    one.tick(hour + LAG_MS)
    assert one.in_sync == 3
    one.tick(hour + LAG_MS + 1)
    assert one.in_sync == 1


def test_a_follower_that_was_looked_at_again_and_still_lacks_the_record_falls_behind() -> None:
    """Its session goes on: that alone does not keep it in sync."""
    one = leader(end=10)
    heard = heard_at(one, 2, 0)
    one.appended(11)
    for now_ms in range(1000, LAG_MS + 2000, 1000):
        one.fetched(FollowerFetch(2, 20, 10, 0, heard=heard), EPOCHS, now_ms)
        heard.ms = now_ms
    one.tick(LAG_MS + 1001)
    assert one._followers[2].behind
