"""The verdict function by tables, and against an oracle that follows every single message."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.deployment import Mirror
from tallymark_audit.events.claim_book import ClaimBook
from tallymark_audit.events.events import AuditEvent
from tallymark_audit.judge.assemble import mirror_facts, producer_facts
from tallymark_audit.judge.copy_progress import Part, Word, owing, unreported
from tallymark_audit.judge.verdicts import (
    Clock,
    ReporterFacts,
    State,
    Verdict,
    judge,
    worst,
)
from tallymark_audit.model.cells import (
    ABORTED,
    EXPIRED,
    Block,
    CellKey,
    Copy,
    Edge,
    Explanation,
)
from tallymark_audit.model.open_transaction import OpenTransaction
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.model.sides import CellFacts, Claim, Observation, merge_observations
from tallymark_audit.reporters.books.tally import Outcome, ReporterIdentity, Run, Tally, TallyKey

W, SETTLE, SILENCE = 1000, 500, 3000
PRODUCER = Edge("producer-to-dc1", "producer", "dc1", "producer")
MIRROR = Edge("dc1-to-aggregate", "dc1", "aggregate", "mirror")
GROUP = Edge("dc1-to-group:g", "dc1", "group:g", "consumer")
KEY = CellKey("t", 0, 0, "web", "00" * 8)
LATER = 100_000


def clock(now: int = LATER, **times: int) -> Clock:
    known = {"downstream_through": now, "upstream_through": now, "changed": 0} | times
    return Clock(now=now, window_ms=W, settle_ms=SETTLE, silence_ms=SILENCE, **known)  # type: ignore[arg-type]


def reporter(**fields: object) -> ReporterFacts:
    known = ReporterFacts("producer-0", KEY.instance, "web", 0, LATER, LATER)
    return replace(known, **fields)  # type: ignore[arg-type]  # by name


def claim(acked: str, **ranges: str) -> Claim:
    sets = {name: span(text) for name, text in ranges.items()}
    accepted = span(acked)
    for more in sets.values():
        accepted |= more
    return Claim(KEY, accepted=accepted, acknowledged=span(acked), **sets)  # type: ignore[arg-type]


def seen(text: str, *again: int) -> Observation:
    ranges = span(text)
    copies = tuple(Copy(0, 100 + at, sequence) for at, sequence in enumerate(again))
    return Observation(KEY, ranges.size + len(again), 0, ranges, copies)


def span(text: str) -> RangeSet:
    """``"0-4,7"`` as a set."""
    pairs = [part.split("-") for part in text.split(",") if part]
    return RangeSet((int(pair[0]), int(pair[-1])) for pair in pairs)


def verdict(
    claimed: Claim | None,
    observed: Observation | None,
    *reporters: ReporterFacts,
    edge: Edge = PRODUCER,
    at: Clock | None = None,
    explained: tuple[Explanation, ...] = (),
    in_flight: bool = False,
) -> Verdict:
    cells = [CellFacts(KEY, claimed, observed, explained, in_flight=in_flight)]
    return judge(edge, "t", 0, cells, reporters or [reporter()], at or clock())


@pytest.mark.parametrize(
    ("claimed", "observed", "state", "sums"),
    [
        (claim("0-9"), seen("0-9"), State.COMPLETE, (0, 0, 0, 0)),
        (claim("0-9"), seen("0-3,6-9"), State.LOSS, (2, 0, 0, 0)),
        (claim("0-9"), None, State.LOSS, (10, 0, 0, 0)),
        (claim("0-9"), seen("0-9", 4), State.DUPLICATION, (0, 1, 0, 0)),
        # As many repeated as lost: a count alone would call this perfect.
        (claim("0-9"), seen("0-7", 1, 2), State.MIXED, (2, 2, 0, 0)),
        (claim("0-4", failed="5-9"), seen("0-4"), State.EXPLAINED, (0, 0, 0, 5)),
        (claim("0-4", in_doubt="5-9"), seen("0-6"), State.EXPLAINED, (0, 0, 0, 3)),
        (claim("0-4", in_doubt="5-9"), seen("0-9"), State.COMPLETE, (0, 0, 0, 0)),
        (claim("0-4", failed="5-9"), seen("0-9"), State.COMPLETE, (0, 0, 0, 0)),
        (None, seen("0-4"), State.UNCLAIMED, (0, 0, 5, 0)),
        (claim("0-4"), seen("0-6"), State.UNCLAIMED, (0, 0, 2, 0)),
        (claim("0-4"), seen("0-3,5"), State.LOSS, (1, 0, 1, 0)),
    ],
)
def test_settled_cells(
    claimed: Claim | None, observed: Observation | None, state: State, sums: tuple[int, ...]
) -> None:
    found = verdict(claimed, observed)
    assert found.state is state
    assert (found.missing, found.duplicates, found.unclaimed, found.explained) == sums


def test_names_what_is_missing_and_where_copies_lie() -> None:
    (cell,) = verdict(claim("0-9"), seen("0-3,6-9", 8)).cells
    assert str(cell.missing) == "4-5"
    assert cell.copies == (Copy(0, 100, 8),)


def test_a_stated_reason_excuses_a_loss() -> None:
    why = Explanation(ABORTED, span("0-2"))
    found = verdict(claim("0-9"), seen("3-9"), explained=(why,))
    assert (found.state, found.missing, found.explained) == (State.EXPLAINED, 0, 3)
    assert found.cells[0].explanations == (why,)


OPEN_SINCE = 10 * W
WAITING = OpenTransaction("dc1", "clicks", 3, 120, 4711, OPEN_SINCE, through=OPEN_SINCE)


@pytest.mark.parametrize(("age", "state"), [(60_000, State.SETTLING), (60_001, State.UNKNOWN)])
def test_a_window_that_waits_for_a_transaction_says_for_which(age: int, state: State) -> None:
    """It is no silent counter: it counts again when the transaction ends, unless that hangs."""
    now = OPEN_SINCE + age
    at = clock(now, downstream_through=OPEN_SINCE, upstream_through=now)
    at = replace(at, changed=OPEN_SINCE, waits=(WAITING,), hanging_ms=60_000)
    found = verdict(claim("0-9"), seen("0-5"), at=at)
    assert (found.state, found.missing) == (state, 4)
    (why,) = found.reasons
    assert "clicks-3 of dc1 waits at offset 120 for a transaction of producer 4711" in why
    assert ("hangs" in why) is (state is State.UNKNOWN)


def test_a_counter_that_is_silent_is_not_excused_by_a_transaction_elsewhere() -> None:
    """Another partition is further behind than the one that waits."""
    now = OPEN_SINCE + 2 * SILENCE
    at = clock(now, downstream_through=OPEN_SINCE - 1, upstream_through=now)
    at = replace(at, changed=OPEN_SINCE, waits=(WAITING,), hanging_ms=10**9)
    found = verdict(claim("0-9"), seen("0-5"), at=at)
    assert found.state is State.UNKNOWN
    assert "has not counted since" in found.reasons[0]


def test_each_absence_has_its_own_reason() -> None:
    """One sum of "explained" had them all together: on call one wants to know which is which."""
    told = claim("0-2,4", failed="5-6", in_doubt="3,7-9", aborted="4")
    (cell,) = verdict(told, replace(seen("0-2,8"), aborted=span("3"))).cells
    assert {why.reason: str(why.ranges) for why in cell.explanations} == {
        "aborted": "3-4",
        "failed": "5-6",
        "in doubt": "7, 9",
    }
    assert (cell.state, cell.missing) == (State.EXPLAINED, EMPTY)


def test_what_retention_took_is_lost_and_cannot_be_repaired() -> None:
    upstream = seen("0-9").as_claim()
    gone = (Explanation(EXPIRED, span("0-3")),)
    (cell,) = verdict(upstream, seen("4-9"), edge=MIRROR, explained=gone).cells
    assert (cell.state, str(cell.missing), str(cell.expired)) == (State.LOSS, "0-3", "0-3")
    assert "deleted upstream" in cell.reason
    (cell,) = verdict(upstream, seen("4-8"), edge=MIRROR, explained=gone).cells
    assert (str(cell.missing), str(cell.expired), cell.reason) == ("0-3, 9", "0-3", "")


def test_acks_0_claims_what_it_accepted() -> None:
    bare = Claim(KEY, accepted=span("0-9"), failed=span("9"), acks=0)
    assert verdict(bare, seen("0-7")).missing == 1
    assert verdict(bare, seen("0-8")).state is State.EXPLAINED


@pytest.mark.parametrize(
    ("at", "state"),
    [
        (clock(999), State.OPEN),
        (clock(1499), State.SETTLING),
        (clock(1500), State.LOSS),
        (clock(9000, changed=8600), State.SETTLING),
        (clock(9100, changed=8600), State.LOSS),
        (clock(2000, downstream_through=1499), State.SETTLING),
        (clock(9000, downstream_through=1499), State.UNKNOWN),
        (clock(9000, downstream_through=1500), State.LOSS),
        # The claims side lags: what is known to be missing is missing all the same.
        (clock(9000, upstream_through=1499), State.LOSS),
    ],
)
def test_a_loss_is_told_when_it_can_be_known(at: Clock, state: State) -> None:
    assert verdict(claim("0-9"), seen("0-8"), at=at).state is state


@pytest.mark.parametrize(
    ("who", "state"),
    [
        (reporter(complete_through=1000), State.COMPLETE),
        (reporter(complete_through=999), State.SETTLING),
        (reporter(complete_through=999, last_heard=0), State.UNKNOWN),
        (reporter(complete_through=0, last_heard=0, closed=True), State.COMPLETE),
        (reporter(complete_through=0, last_heard=0, retired=True), State.COMPLETE),
        (reporter(complete_through=0, last_heard=0, first_seen=1000), State.COMPLETE),
        (reporter(instance="ff" * 8, complete_through=0, last_heard=0), State.UNKNOWN),
        # A back-fill holds only windows it has messages in.
        (reporter(complete_through=0, backfill=True, first_seen=5000), State.SETTLING),
        (reporter(instance="ff" * 8, complete_through=0, backfill=True), State.COMPLETE),
    ],
)
def test_a_window_waits_for_its_reporters(who: ReporterFacts, state: State) -> None:
    assert verdict(claim("0-9"), seen("0-9"), who).state is state


@pytest.mark.parametrize(("heard", "state"), [(LATER, State.SETTLING), (0, State.UNKNOWN)])
def test_a_reporter_whose_reports_were_lost_is_not_called_silent(heard: int, state: State) -> None:
    """It had closed, and had sent a report every second until then. "It is silent and has not
    closed", the verdict said, and the operator looked for a process that had died."""
    who = reporter(complete_through=0, last_heard=heard, lost=span("32-35"))
    found = verdict(claim("0-9"), seen("0-9"), who)
    assert found.state is state
    (reason,) = found.reasons
    assert "4 of its reports did not arrive (of the numbers 32 to 35)" in reason
    assert "silent" not in reason


def test_never_green_because_data_is_absent() -> None:
    silent = reporter(complete_through=0, last_heard=0)
    assert judge(PRODUCER, "t", 0, [], [silent], clock()).state is State.UNKNOWN
    idle = clock(downstream_through=0)
    assert judge(PRODUCER, "t", 0, [], [reporter()], idle).state is State.UNKNOWN
    assert judge(PRODUCER, "t", 0, [], [reporter()], clock()).state is State.COMPLETE


def test_what_is_unclaimed_may_still_be_claimed() -> None:
    owing = reporter(complete_through=0)
    assert verdict(None, seen("0-4"), owing).state is State.SETTLING
    assert verdict(None, seen("0-4"), reporter(), at=clock(upstream_through=0)).state in (
        State.UNKNOWN,
        State.SETTLING,
    )


def test_accepted_but_not_settled_is_not_complete() -> None:
    pending = Claim(KEY, accepted=span("0-4"), acknowledged=span("0-3"))
    assert verdict(pending, seen("0-3"), reporter(complete_through=900)).state is State.SETTLING
    assert verdict(pending, seen("0-3"), reporter(closed=True)).state is State.UNKNOWN
    assert verdict(pending, seen("0-4"), reporter(closed=True)).state is State.COMPLETE


def test_a_mirror_is_not_blamed_for_copies_it_was_given() -> None:
    upstream = seen("0-9", 3, 3, 5).as_claim()
    assert verdict(upstream, seen("0-9", 3, 3, 5), edge=MIRROR).state is State.COMPLETE
    found = verdict(upstream, seen("0-9", 3, 5, 5, 7), edge=MIRROR)
    assert (found.state, found.duplicates) == (State.DUPLICATION, 2)
    assert [copy.sequence for copy in found.cells[0].copies] == [5, 7]


@pytest.mark.parametrize("edge", [MIRROR, GROUP])
def test_nor_for_copies_that_upstream_has_not_counted_yet(edge: Edge) -> None:
    """A producer had sent a batch twice. The collector upstream was half a second behind when the
    one downstream had counted both: the window was DUPLICATION on the mirror's edge, and then it
    was not. A producer, which claims each record once, needs no counter upstream for that."""
    behind = clock(upstream_through=LATER - 99_000)
    found = verdict(claim("0-9"), seen("0-9", 3), edge=edge, at=behind)
    assert found.state in (State.SETTLING, State.UNKNOWN)
    assert "counter upstream" in found.reasons[0]
    assert verdict(claim("0-9"), seen("0-9", 3), edge=edge).state is State.DUPLICATION
    assert verdict(claim("0-9"), seen("0-9", 3), at=behind).state is State.DUPLICATION


def test_what_a_group_read_twice_is_not_hidden_by_a_copy_it_did_not_read() -> None:
    """The cluster had a copy of one message in the end of its log that was torn off; the group was
    given another one twice. As numbers they cancelled, and the cell was COMPLETE."""
    upstream = seen("0-9", 3).as_claim()
    group = Observation(KEY, 11, 0, span("0-9"), again=(span("7"),))
    found = verdict(upstream, group, edge=GROUP)
    assert (found.state, found.duplicates) == (State.DUPLICATION, 1)
    assert found.cells[0].repeated == (span("7"),)


def test_two_runs_of_a_group_that_read_the_same_are_named() -> None:
    runs = (
        Observation(KEY, 6, 0, span("0-5")),
        Observation(KEY, 8, 0, span("4-9"), again=(span("4-5"),)),
    )
    (both,) = merge_observations(runs).values()
    assert both.repeated == (span("4-5"), span("4-5"))


@pytest.mark.parametrize(
    ("mirror", "state"),
    [
        ({}, State.SETTLING),
        ({"last_heard": LATER - SILENCE - 1}, State.UNKNOWN),
        ({"closed": True, "last_heard": 0}, State.UNKNOWN),
        ({"closed": True}, State.SETTLING),  # by one of several processes: another goes on
        ({"retired": True}, State.LOSS),
    ],
)
def test_a_mirror_that_lags_has_not_lost(mirror: dict[str, Any], state: State) -> None:
    """What lies behind all that the mirror has copied is under way while it lives. If it is silent
    nobody knows; only a person can say that it will not come back."""
    who = reporter(instance="", complete_through=0, **mirror)
    found = verdict(claim("0-9"), seen("0-5"), who, edge=MIRROR, in_flight=True)
    assert found.state is state
    assert verdict(claim("0-9"), seen("0-5"), who, edge=MIRROR).state is State.LOSS
    # What has arrived has arrived, whoever brought it.
    assert verdict(claim("0-9"), seen("0-9"), who, edge=MIRROR, in_flight=True).state is (
        State.COMPLETE
    )


@pytest.mark.parametrize(
    ("mirror", "state", "waits"),
    [
        ({}, State.DUPLICATION, State.SETTLING),
        ({"last_heard": LATER - SILENCE - 1}, State.DUPLICATION, State.UNKNOWN),
        ({"retired": True}, State.MIXED, None),
    ],
)
def test_a_cell_in_alarm_says_what_its_missing_records_wait_for(
    mirror: dict[str, Any], state: State, waits: State | None
) -> None:
    """Of a cell in alarm was only known that it lacks records, and not whether anything was under
    way: it was judged again each second, for as long as a mirror was silent."""
    found = verdict(claim("0-9"), seen("0-5", 3), reporter(**mirror), edge=MIRROR, in_flight=True)
    (cell,) = found.cells
    assert (cell.state, cell.missing_count, cell.waits) == (state, 4, waits)


@pytest.mark.parametrize(
    ("now", "state"), [(W - 1, State.OPEN), (W + 1, State.SETTLING), (LATER, None)]
)
def test_a_young_cell_waits_for_its_window(now: int, state: State | None) -> None:
    (cell,) = verdict(claim("0-9"), seen("0-5"), at=clock(now)).cells
    assert cell.waits == state


def test_a_mirror_that_tells_nothing_is_given_some_time() -> None:
    cells = [CellFacts(KEY, claim("0-9"), seen("0-5"), in_flight=True)]
    soon = clock(W + SETTLE + SILENCE - 1)
    assert judge(MIRROR, "t", 0, cells, [], soon).state is State.SETTLING
    assert judge(MIRROR, "t", 0, cells, [], clock()).state is State.LOSS


@pytest.mark.parametrize(
    ("members", "in_flight", "state"),
    [
        ([], False, State.UNKNOWN),
        ([{}], True, State.SETTLING),
        ([{}], False, State.LOSS),
        ([{"complete_through": 0}], False, State.SETTLING),
        ([{"complete_through": 0, "last_heard": 0}], False, State.UNKNOWN),
        ([{"last_heard": 0}], True, State.UNKNOWN),
        ([{"last_heard": 0}, {}], True, State.SETTLING),
        ([{"retired": True}], True, State.LOSS),
        ([{"closed": True, "last_heard": 0}], True, State.UNKNOWN),
    ],
)
def test_what_a_group_has_not_processed(
    members: list[dict[str, Any]], in_flight: bool, state: State
) -> None:
    runs = [reporter(reporter=f"c{at}", **each) for at, each in enumerate(members)]
    facts = CellFacts(KEY, seen("0-9").as_claim(), seen("0-5"), in_flight=in_flight)
    assert judge(GROUP, "t", 0, [facts], runs, clock()).state is state


def test_a_group_that_has_processed_all_owes_nothing() -> None:
    """Members come and go; one that was killed holds what it may have processed, nothing else."""
    dead = reporter(complete_through=0, last_heard=0)
    facts = CellFacts(KEY, seen("0-9").as_claim(), seen("0-9"))
    assert judge(GROUP, "t", 0, [facts], [dead], clock()).state is State.COMPLETE
    left_out = CellFacts(
        KEY, seen("0-9").as_claim(), seen("0-5"), (Explanation("filtered", span("6-9")),)
    )
    assert judge(GROUP, "t", 0, [left_out], [dead], clock()).state is State.EXPLAINED


@pytest.mark.parametrize(
    ("member", "changed", "state"),
    [
        ({"last_heard": 5_000}, 20_000, State.UNKNOWN),
        ({"last_heard": LATER - SILENCE}, LATER - SILENCE, State.SETTLING),
        ({"last_heard": 20_001}, 20_000, State.COMPLETE),  # it has reported since
        ({"last_heard": 5_000, "retired": True}, 20_000, State.COMPLETE),
        ({"last_heard": 5_000}, 0, State.UNKNOWN),  # Spark, which reads all at once
        ({"last_heard": LATER}, 0, State.COMPLETE),
    ],
)
def test_what_a_silent_member_may_have_processed_is_not_known(
    member: dict[str, Any], changed: int, state: State
) -> None:
    """A member was killed, with it its host and the journal. What it had processed and not
    reported the next one processed again: COMPLETE, though nobody could know that it was once."""
    one = reporter(reporter="consumer-1", complete_through=5_000, **member)
    word = Word("consumer-1", 0, 5, 5_000)
    parts = {KEY: [Part(0, replace(seen("0-9"), first_offset=0, last_offset=9))]}
    facts = CellFacts(
        KEY,
        seen("0-9").as_claim(),
        seen("0-9"),
        unreported=unreported(parts, owing([word], [one])).get(KEY, frozenset()),
    )
    found = judge(GROUP, "t", 0, [facts], [one], clock(changed=changed))
    assert found.state is state
    if state is State.UNKNOWN:
        assert "consumer-1 on web is silent since" in found.reasons[0]


def test_a_member_owes_only_where_it_was_the_last() -> None:
    """It had given the partition to another one and reported since, before it was killed; what lies
    before the offset it told is reported."""
    dead = reporter(reporter="one", last_heard=5_000)
    other = reporter(reporter="two", last_heard=LATER)
    words = [Word("one", 0, 5, 1_000), Word("two", 0, 5, 2_000), Word("one", 1, 5, 1_000)]
    assert owing(words, [dead, other]) == {0: [(5, "two")], 1: [(5, "one")]}
    later = [Word("one", 0, 5, 1_000), Word("two", 0, 5, 6_000), Word("mirror", 0, 5, 2_000)]
    assert owing(later, [dead, other]) == {0: [(5, "one"), (5, "two")]}
    before = {KEY: [Part(0, replace(seen("0-4"), first_offset=0, last_offset=4))]}
    assert unreported(before, {0: [(5, "one")]}) == {}


def test_what_a_member_had_in_hand_is_perhaps_processed_twice() -> None:
    """Processed by the next one, so nothing is missing; what nobody processed again is."""
    doubt = (Explanation("in doubt", span("5-6")),)
    facts = CellFacts(KEY, seen("0-9").as_claim(), seen("0-9"), doubt)
    found = judge(GROUP, "t", 0, [facts], [reporter(closed=True)], clock())
    assert (found.state, found.missing, found.cells[0].explained) == (
        State.EXPLAINED,
        0,
        span("5-6"),
    )
    assert found.reasons == ("in hand of a consumer when it was gone: perhaps processed twice",)
    facts = CellFacts(KEY, seen("0-9").as_claim(), seen("0-4,7-9"), doubt)
    found = judge(GROUP, "t", 0, [facts], [reporter(retired=True)], clock())
    assert (found.state, found.missing) == (State.LOSS, 2)


def block(number: int, records: int, value: int) -> Block:
    return Block(number, records, value)


@pytest.mark.parametrize(
    ("upstream", "downstream", "state", "blocks"),
    [
        (("0-9", 10, 7), ("0-9", 10, 7), State.COMPLETE, ()),
        (("0-9", 10, 7), ("0-9", 10, 8), State.CORRUPT, (0,)),
        # One is missing: the sums differ for that alone, and say nothing about the contents.
        (("0-9", 10, 7), ("0-8", 9, 8), State.LOSS, ()),
        # A copy in the block: as many are lost as repeated, the records are as many.
        (("0-9", 10, 7), ("0-8", 10, 8), State.MIXED, ()),
    ],
)
def test_blocks_are_compared_only_where_both_hold_the_same(
    upstream: tuple[str, int, int],
    downstream: tuple[str, int, int],
    state: State,
    blocks: tuple[int, ...],
) -> None:
    told = replace(claim(upstream[0]), blocks=(block(0, *upstream[1:]),))
    again = [3] * (downstream[1] - span(downstream[0]).size)
    there = replace(seen(downstream[0], *again), blocks=(block(0, *downstream[1:]),))
    found = verdict(told, there)
    assert found.state is state
    assert [cell.corrupt for cell in found.cells if cell.corrupt] == ([blocks] if blocks else [])


def test_one_in_doubt_for_one_that_is_lost_is_no_corruption() -> None:
    """As many records in the block on both sides, but others: an acknowledged one is missing and
    one in doubt has arrived. That is a loss."""
    told = replace(claim("0-8", in_doubt="9"), blocks=(block(0, 9, 7),))
    there = replace(seen("0-7,9"), blocks=(block(0, 9, 8),))
    found = verdict(told, there)
    assert (found.state, found.cells[0].corrupt) == (State.LOSS, ())


def test_corruption_shows_beside_a_loss() -> None:
    told = replace(claim("0-1029"), blocks=(block(0, 1024, 7), block(1, 6, 1)))
    there = replace(seen("0-1027"), blocks=(block(0, 1024, 8), block(1, 4, 2)))
    (cell,) = verdict(told, there).cells
    assert (cell.state, str(cell.missing), cell.corrupt) == (State.MIXED, "1028-1029", (0,))


def test_an_uncommitted_copy_of_an_aborted_record() -> None:
    """A mirror that reads committed records only has no business to bring it; one that is told to
    bring all of them has."""
    upstream = replace(seen("0-7"), aborted=span("8-9")).as_claim()
    assert verdict(upstream, seen("0-7"), edge=MIRROR).state is State.COMPLETE
    found = verdict(upstream, seen("0-9"), edge=MIRROR)
    assert (found.state, found.unclaimed) == (State.UNCLAIMED, 2)
    assert "aborted" in found.reasons[0]
    rules = Mirror(source="dc1", target="aggregate", isolation="read_uncommitted")
    assert verdict(upstream, seen("0-9"), edge=replace(MIRROR, mirror=rules)).state is (
        State.COMPLETE
    )


def test_loss_and_duplication_in_different_cells_do_not_cancel() -> None:
    other = KEY._replace(partition=1)
    cells = [
        CellFacts(KEY, claim("0-9"), seen("0-8")),
        CellFacts(
            other,
            replace(claim("0-9"), key=other),
            replace(seen("0-9", 3), key=other),
        ),
    ]
    found = judge(PRODUCER, "t", 0, cells, [reporter()], clock())
    assert (found.state, found.missing, found.duplicates) == (State.MIXED, 1, 1)
    assert [cell.state for cell in found.cells] == [State.LOSS, State.DUPLICATION]


def test_records_without_a_stamp_are_counted() -> None:
    bare = CellKey("t", 0, 0, "", "")
    facts = CellFacts(bare, Claim(bare, count=10), Observation(bare, 8))
    found = judge(MIRROR, "t", 0, [facts], [], clock())
    assert (found.state, found.missing, found.cells[0].missing) == (State.LOSS, 2, EMPTY)
    found = judge(PRODUCER, "t", 0, [CellFacts(bare, None, Observation(bare, 8))], [], clock())
    assert (found.state, found.unclaimed) == (State.UNCLAIMED, 8)


def test_the_worst_state_is_the_whole_one() -> None:
    assert worst([]) is State.COMPLETE
    assert worst([State.COMPLETE, State.EXPLAINED]) is State.EXPLAINED
    assert worst([State.UNKNOWN, State.LOSS]) is State.LOSS
    assert worst([State.LOSS, State.UNCLAIMED, State.DUPLICATION]) is State.MIXED


# --- against an oracle --------------------------------------------------------------------------


@dataclass
class Message:
    """One message, followed by hand: how often it stands in dc1 and in the aggregate."""

    instance: str
    sequence: int
    window: int
    outcome: Outcome | None = None
    dc1: int = 0
    aggregate: int = 0


@dataclass
class World:
    """Producers, a cluster, a mirror and an aggregate, under a schedule of faults."""

    chance: Random
    messages: list[Message] = field(default_factory=list)
    tallies: dict[str, Tally] = field(default_factory=dict)
    events: list[AuditEvent] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)
    now: int = 0

    def tally(self, instance: str) -> Tally:
        if instance not in self.tallies:
            who = ReporterIdentity(f"producer-{instance}", "web", "app", instance, W, self.now)
            self.tallies[instance] = Tally(who)
        return self.tallies[instance]

    def send(self, instance: str, delay: int, fate: str) -> None:
        """``fate``: what becomes of it on the way to dc1."""
        sequence = sum(1 for each in self.messages if each.instance == instance)
        stamp = max(0, self.now - delay)
        message = Message(instance, sequence, stamp - stamp % W)
        self.messages.append(message)
        key = TallyKey("t", 0, message.window)
        tally = self.tally(instance)
        tally.accept(Run(key, sequence, sequence, stamp, stamp), 1, self.now)
        copies, message.outcome = {
            "stored": (1, Outcome.ACKNOWLEDGED),
            "acknowledged but lost": (0, Outcome.ACKNOWLEDGED),
            "retried into a duplicate": (2, Outcome.ACKNOWLEDGED),
            "ack lost, stored": (1, Outcome.IN_DOUBT),
            "ack lost, not stored": (0, Outcome.IN_DOUBT),
            "refused": (0, Outcome.FAILED),
            "never settled": (self.chance.randrange(2), None),
        }[fate]
        message.dc1 = copies
        if message.outcome is not None:
            tally.settle(key, message.outcome, sequence, sequence, self.now)

    def mirror(self, fate: str) -> None:
        """Copy what is in dc1 and not in the aggregate yet."""
        for message in self.messages:
            if message.dc1 and not message.aggregate and fate != "delayed":
                dropped = fate == "drops some" and self.chance.random() < 0.3
                repeats = fate == "repeats some" and self.chance.random() < 0.3
                message.aggregate = 0 if dropped else message.dc1 + repeats

    def report(self, instance: str, closed: bool = False) -> None:
        if instance in self.ended:
            return
        tally = self.tally(instance)
        pending = any(cell.pending for cell in tally.cells.values())
        oldest = min((k.window for k, c in tally.cells.items() if c.pending), default=self.now)
        for event in tally.report(self.now, min(self.now, oldest), closed and not pending):
            tally.published(event.event_number)
            self.events.append(event)
        if closed and not pending:
            self.ended.add(instance)

    def crash(self, instance: str, journal: bool) -> None:
        """The process dies; with a journal the next start publishes what it knew."""
        if instance in self.ended:
            return
        if journal:
            for message in self.messages:
                if message.instance == instance and message.outcome is None:
                    message.outcome = Outcome.IN_DOUBT
            tally = self.tally(instance)
            tally.settle_pending(self.now, Outcome.IN_DOUBT)
            self.events += tally.report(self.now, 0, closed=True)
        self.ended.add(instance)

    def observed(self, copies: str, window: int) -> dict[CellKey, Observation]:
        """What an independent counter sees; built message by message."""
        cells: dict[CellKey, Observation] = {}
        for message in self.messages:
            count = getattr(message, copies)
            if count and message.window == window:
                key = CellKey("t", 0, window, "web", message.instance)
                one = Observation(
                    key,
                    count,
                    ranges=RangeSet.of([message.sequence]),
                    copies=tuple(Copy(0, 0, message.sequence) for _ in range(count - 1)),
                )
                cells[key] = cells[key].merge(one) if key in cells else one
        return cells

    def expect(self, window: int, kept: set[str]) -> tuple[dict[str, Counter[str]], set[str]]:
        """The oracle: per edge what is wrong, and per edge the messages by name."""
        wrong: dict[str, Counter[str]] = {"producer": Counter(), "mirror": Counter()}
        names: set[str] = set()
        for each in self.messages:
            if each.window != window:
                continue
            claimed = each.instance in kept
            if not claimed and each.dc1:
                wrong["producer"]["unclaimed"] += 1
            if claimed and each.outcome is Outcome.ACKNOWLEDGED and not each.dc1:
                wrong["producer"]["missing"] += 1
                names.add(f"{each.instance}:{each.sequence}")
            if claimed and each.outcome is not Outcome.ACKNOWLEDGED and not each.dc1:
                wrong["producer"]["explained"] += 1
            wrong["producer"]["duplicates"] += max(0, each.dc1 - 1)
            if each.dc1 and not each.aggregate:
                wrong["mirror"]["missing"] += 1
            wrong["mirror"]["duplicates"] += max(0, each.aggregate - max(1, each.dc1))
        return wrong, names


fates = st.sampled_from(
    [
        "stored",
        "stored",
        "stored",
        "acknowledged but lost",
        "retried into a duplicate",
        "ack lost, stored",
        "ack lost, not stored",
        "refused",
        "never settled",
    ]
)
INSTANCES = ["aa" * 8, "bb" * 8]
schedule = st.lists(
    st.one_of(
        st.tuples(
            st.just("send"), st.sampled_from(INSTANCES), st.sampled_from([0, 0, 50, 1500]), fates
        ),
        st.tuples(st.just("report"), st.sampled_from(INSTANCES)),
        st.tuples(
            st.just("mirror"), st.sampled_from(["all", "drops some", "repeats some", "delayed"])
        ),
        st.tuples(st.just("wait"), st.integers(1, 1500)),
        st.tuples(st.just("crash"), st.sampled_from(INSTANCES), st.booleans()),
    ),
    max_size=40,
)


def play(script: list[tuple[object, ...]], chance: Random) -> World:
    world = World(chance)
    for name, *arguments in script:
        world.now += 7
        if name == "wait":
            world.now += int(str(arguments[0]))
        elif arguments[0] not in world.ended:
            getattr(world, str(name))(*arguments)
    for instance in INSTANCES:
        if instance in world.tallies:
            world.report(instance, closed=True)
    return world


def judged(world: World, window: int, book: ClaimBook, edge: Edge) -> Verdict:
    later = world.now + 50_000
    dc1 = world.observed("dc1", window)
    aggregate = world.observed("aggregate", window)
    claims = {key: claim for key, claim in book.claims().items() if key.window == window}
    if edge is PRODUCER:
        cells = producer_facts(claims, dc1)
        reporters = [each.facts() for each in book.reporters.values()]
        return judge(edge, "t", window, cells, reporters, clock(later))
    cells = mirror_facts(edge, {"dc1": dc1}, aggregate)
    return judge(edge, "t", window, cells, [], clock(later))


@settings(max_examples=60, deadline=None)
@given(schedule, st.randoms(use_true_random=False))
def test_the_verdict_is_the_oracles(script: list[tuple[object, ...]], chance: Random) -> None:
    """Every event arrives, twice and in any order: the sums and the names are exact."""
    world = play(script, chance)
    events = world.events * 2
    chance.shuffle(events)
    book = ClaimBook()
    for event in events:
        book.add(event)
    kept = {event.instance for event in events if event.closed}
    for window in {message.window for message in world.messages}:
        dead = {m.instance for m in world.messages if m.window == window} - kept
        if dead:
            continue  # the next test
        wrong, names = world.expect(window, kept)
        found = judged(world, window, book, PRODUCER)
        assert found.missing == wrong["producer"]["missing"]
        assert found.duplicates == wrong["producer"]["duplicates"]
        assert found.explained == wrong["producer"]["explained"]
        assert found.unclaimed == 0
        assert {
            f"{cell.key.instance}:{sequence}"
            for cell in found.cells
            for first, last in cell.missing
            for sequence in range(first, last + 1)
        } == names
        mirrored = judged(world, window, book, MIRROR)
        assert mirrored.missing == wrong["mirror"]["missing"]
        assert mirrored.duplicates == wrong["mirror"]["duplicates"]
        holding = {each.instance for each in book.reporters.values()} <= kept
        if holding:
            assert found.state is expected_state(wrong["producer"])
        assert mirrored.state is expected_state(wrong["mirror"])


def expected_state(wrong: Counter[str]) -> State:
    """What a person would call it."""
    if wrong["missing"]:
        return State.MIXED if wrong["duplicates"] else State.LOSS
    if wrong["duplicates"]:
        return State.DUPLICATION
    return State.EXPLAINED if wrong["explained"] else State.COMPLETE


@settings(max_examples=60, deadline=None)
@given(schedule, st.randoms(use_true_random=False))
def test_lost_events_never_make_it_green(script: list[tuple[object, ...]], chance: Random) -> None:
    """Monitoring events are lost and producers die without a journal: a window that the oracle
    knows to be wrong is never COMPLETE or EXPLAINED, and what is named is truly missing."""
    world = play(script, chance)
    book = ClaimBook()
    for event in world.events:
        if chance.random() < 0.6:
            book.add(event)
    for window in {message.window for message in world.messages}:
        wrong, _ = world.expect(window, {m.instance for m in world.messages})
        found = judged(world, window, book, PRODUCER)
        heard = {each.instance for each in book.reporters.values()}
        there = {m.instance for m in world.messages if m.window == window}
        if wrong["producer"]["missing"] and there <= heard:
            assert found.state not in (State.COMPLETE, State.EXPLAINED)
        lost = {
            (m.instance, m.sequence)
            for m in world.messages
            if m.outcome is Outcome.ACKNOWLEDGED and not m.dc1
        }
        for cell in found.cells:
            for first, last in cell.missing:
                for sequence in range(first, last + 1):
                    assert (cell.key.instance, sequence) in lost


NOBODY = reporter(instance="ff" * 8)
"""A run that has nothing to do with the cell."""


def test_a_run_that_nobody_has_heard_of_yet_is_waited_for() -> None:
    """A new producer on a busy machine: its records were counted before its first report came. The
    window was UNCLAIMED, an alarm that was taken back a second later. So it was after a kill until
    the journal was published. Every test gave the cell a reporter that had been heard."""
    heard_by = W + SETTLE + SILENCE
    early = verdict(None, seen("0-4"), NOBODY, at=clock(heard_by - 1))
    assert (early.state, early.unclaimed) == (State.SETTLING, 5)
    assert early.reasons == ("nothing was heard yet of the run that sent it",)
    assert verdict(None, seen("0-4"), NOBODY, at=clock(heard_by)).state is State.UNCLAIMED
    # A clock that is behind: the window is long over when its records come.
    just_counted = clock(changed=LATER - SETTLE)
    assert verdict(None, seen("0-4"), NOBODY, at=just_counted).state is State.SETTLING


def test_records_without_a_stamp_have_no_run_to_wait_for() -> None:
    key = KEY._replace(server="", instance="")
    cell = CellFacts(key, None, Observation(key, 5, 0))
    found = judge(PRODUCER, "t", 0, [cell], [NOBODY], clock(W + SETTLE))
    assert found.state is State.UNCLAIMED


def test_of_a_run_that_was_heard_an_unknown_record_is_unclaimed_at_once() -> None:
    found = verdict(claim("0-4"), seen("0-6"), at=clock(W + SETTLE))
    assert found.state is State.UNCLAIMED


WRITTEN = 50_000
"""When the records of a window were counted ..."""
AHEAD = WRITTEN + 7_200_000
"""... that begins two hours later, by the clock of who sent them."""


def ahead(
    claimed: Claim | None, observed: Observation | None, *reporters: ReporterFacts, at: int
) -> Verdict:
    def moved(side: Any) -> Any:
        return side and replace(side, key=key, max_timestamp=AHEAD + 60_500)

    key = KEY._replace(window=AHEAD)
    cell = CellFacts(key, moved(claimed), moved(observed))
    return judge(PRODUCER, "t", AHEAD, [cell], reporters, clock(at, changed=WRITTEN))


FAST = reporter(complete_through=AHEAD + W)
"""Whose clock is ahead: so is what it says it has claimed through."""


@pytest.mark.parametrize(
    ("claimed", "observed", "state"),
    [
        (claim("0-9"), seen("0-9"), State.COMPLETE),
        (claim("0-9"), seen("0-3"), State.LOSS),
        (claim("0-9"), seen("0-9", 3), State.DUPLICATION),
    ],
)
def test_what_a_clock_that_is_ahead_stamped_is_judged_by_when_it_was_written(
    claimed: Claim, observed: Observation, state: State
) -> None:
    """A host's clock was two hours ahead. Its windows were OPEN for two hours, whatever happened in
    them, and nothing said that a clock was wrong."""
    settled = WRITTEN + SETTLE
    found = ahead(claimed, observed, FAST, at=settled)
    assert found.state is state
    assert found.reasons[0] == (
        "skewed: the clock of web is ahead by 2 h 1 min; judged by when it was written"
    )
    assert ahead(claimed, observed, FAST, at=settled - 1).state is State.SETTLING


def test_healthy_producers_do_not_owe_the_future() -> None:
    healthy = reporter(instance="ee" * 8, complete_through=WRITTEN)
    found = ahead(claim("0-9"), seen("0-9"), FAST, healthy, at=WRITTEN + SETTLE)
    assert found.state is State.COMPLETE


def test_who_wrote_into_the_future_still_owes_its_claims() -> None:
    behind = reporter(complete_through=AHEAD, last_heard=WRITTEN)
    waits = ahead(claim("0-4"), seen("0-9"), behind, at=WRITTEN + SETTLE)
    assert waits.state is State.SETTLING
    silent = ahead(claim("0-9"), seen("0-9"), behind, at=WRITTEN + SILENCE + 1)
    assert silent.state is State.UNKNOWN


def test_a_clock_that_was_ahead_and_was_corrected_owes_no_future() -> None:
    """A host's clock was two hours ahead and was then set right. "Claimed through", by the right
    clock, lies before its windows of the future: complete ones were SETTLING for two hours."""
    right = reporter(complete_through=WRITTEN + W, last_heard=WRITTEN + 1)
    found = ahead(claim("0-9"), seen("0-9"), right, at=WRITTEN + SETTLE)
    assert found.state is State.COMPLETE
    assert ahead(claim("0-9"), seen("0-3"), right, at=WRITTEN + SETTLE).state is State.LOSS


def test_a_little_ahead_is_not_skewed() -> None:
    """Clocks differ: a record of the next window may be counted before it has begun."""
    key = KEY._replace(window=2 * W)
    cell = CellFacts(key, replace(claim("0-9"), key=key), replace(seen("0-9"), key=key))
    almost = clock(2 * W, changed=2 * W - SETTLE)
    found = judge(PRODUCER, "t", 2 * W, [cell], [reporter()], almost)
    assert (found.state, found.reasons) == (State.OPEN, ("the window has not ended",))


def test_a_counter_that_has_counted_nothing_yet_is_catching_up() -> None:
    """A topic's first count was late: "the counter downstream has not counted since 1970-01-01"."""
    fresh = clock(W + SETTLE, downstream_through=0)
    found = verdict(claim("0-9"), None, at=fresh)
    assert (found.state, found.reasons[0]) == (
        State.SETTLING,
        "the counter downstream is catching up",
    )
    late = verdict(claim("0-9"), None, at=clock(downstream_through=0))
    assert late.reasons[0] == "the counter downstream has not counted anything yet"
