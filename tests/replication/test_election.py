"""Who leads a partition next."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pictures import cluster, view_of

from tallymark.replication import election
from tallymark.replication.election import Elected, Kind, NotElected, Outcome
from tallymark.replication.model import NO_LEADER, PartitionState, Tail


def elected(outcome: Outcome) -> PartitionState:
    assert isinstance(outcome, Elected), outcome
    assert outcome.state.leader_epoch == 8, "every election raises the epoch"
    assert outcome.state.controller_epoch == 4
    return outcome.state


def refused(outcome: Outcome) -> tuple[str, str]:
    assert isinstance(outcome, NotElected), outcome
    return outcome.error, outcome.why


# -- the leader is gone ---------------------------------------------------------------------------


def test_the_first_member_that_is_up_follows_a_leader_that_is_gone() -> None:
    view = view_of(1, (1, 2, 3))
    outcome = election.offline(view, cluster(view, [2, 3]))
    assert outcome.why == "broker 1 is not registered"
    state = elected(outcome)
    assert (state.leader, state.isr) == (2, (2, 3))


def test_the_order_is_that_of_the_assignment_not_of_the_isr() -> None:
    view = view_of(1, (2, 3, 1), replicas=(1, 3, 2))
    assert elected(election.offline(view, cluster(view, [2, 3]))).leader == 3


def test_a_replica_out_of_sync_is_never_elected() -> None:
    view = view_of(1, (1, 3))
    assert elected(election.offline(view, cluster(view, [2, 3]))).leader == 3


def test_the_last_member_stays_in_the_isr_and_the_partition_has_no_leader() -> None:
    """Kafka once took the last member out of the ISR: then nothing told any more which replica has
    everything. The epoch rises all the same, so the old leader cannot write under it."""
    view = view_of(1, (1,), least=1)
    state = elected(election.offline(view, cluster(view, [2, 3])))
    assert (state.leader, state.isr) == (NO_LEADER, (1,))


def test_dead_members_leave_only_down_to_the_least_isr() -> None:
    """KIP-966, the last replica standing: with min.insync.replicas=2 the ISR shrank to {2}. Broker
    2 lost its power, came back empty, led, and the others cut what was acknowledged."""
    view = view_of(1, (1, 2, 3))
    state = elected(election.offline(view, cluster(view, [2])))
    assert (state.leader, state.isr) == (2, (1, 2))


def test_a_member_that_is_leaving_is_elected_only_where_no_other_is_up() -> None:
    view = view_of(1, (1, 2, 3))
    assert elected(election.offline(view, cluster(view, [2, 3], leaving=[2]))).leader == 3
    assert elected(election.offline(view, cluster(view, [2], leaving=[2]))).leader == 2


def test_a_member_with_an_incomplete_log_is_not_elected() -> None:
    """A broker that lost its page cache and then led took back what was acknowledged."""
    view = view_of(1, (1, 2, 3), incomplete={2: Tail(7, 90)})
    state = elected(election.offline(view, cluster(view, [2, 3])))
    assert (state.leader, state.isr, dict(state.incomplete)) == (3, (1, 3), {2: Tail(7, 90)})


# -- the leader leaves, or is suspected -----------------------------------------------------------


def test_a_clean_stop_moves_the_lead_to_the_first_that_stays() -> None:
    view = view_of(1, (1, 2, 3))
    outcome = election.replaced(view, cluster(view, [1, 2, 3], leaving=[1, 2]))
    state = elected(outcome)
    assert (state.leader, state.isr) == (3, (1, 3))


def test_a_leader_that_leaves_leads_until_another_is_in_sync() -> None:
    view = view_of(1, (1,), least=1)
    error, why = refused(election.replaced(view, cluster(view, [1, 2, 3], leaving=[1])))
    assert error == "ELIGIBLE_LEADERS_NOT_AVAILABLE"
    assert why == "broker 1 is leaving, but no other member is up"


def test_a_suspected_leader_is_replaced_and_leaves_the_isr_where_the_minimum_allows() -> None:
    view = view_of(1, (1, 2, 3))
    outcome = election.replaced(view, cluster(view, [1, 2, 3], suspects=[1]))
    assert isinstance(outcome, Elected)
    assert outcome.why == "broker 1 does not answer"
    assert (outcome.state.leader, outcome.state.isr) == (2, (2, 3))
    small = view_of(1, (1, 2))
    state = elected(election.replaced(small, cluster(small, [1, 2], suspects=[1])))
    assert (state.leader, state.isr) == (2, (1, 2))


def test_a_suspected_leader_without_another_leads_on() -> None:
    """A wrong suspicion must never take a partition away."""
    view = view_of(1, (1,), least=1)
    refused(election.replaced(view, cluster(view, [1, 2], suspects=[1])))


# -- preferred ------------------------------------------------------------------------------------


def test_the_preferred_leader_is_elected_when_it_is_up_and_in_sync() -> None:
    view = view_of(2, (1, 2, 3))
    state = elected(election.preferred(view, cluster(view, [1, 2, 3])))
    assert (state.leader, state.isr) == (1, (1, 2, 3))


@pytest.mark.parametrize(
    ("leader", "isr", "up", "leaving", "error"),
    [
        (1, (1, 2, 3), [1, 2, 3], [], "ELECTION_NOT_NEEDED"),
        (2, (2, 3), [1, 2, 3], [], "PREFERRED_LEADER_NOT_AVAILABLE"),
        (2, (1, 2, 3), [2, 3], [], "PREFERRED_LEADER_NOT_AVAILABLE"),
        (2, (1, 2, 3), [1, 2, 3], [1], "PREFERRED_LEADER_NOT_AVAILABLE"),
    ],
)
def test_no_preferred_leader(
    leader: int, isr: tuple[int, ...], up: list[int], leaving: list[int], error: str
) -> None:
    view = view_of(leader, isr)
    assert refused(election.preferred(view, cluster(view, up, leaving=leaving)))[0] == error


# -- what may be lost -----------------------------------------------------------------------------

TAILS = {1: Tail(6, 500), 2: Tail(7, 80), 3: Tail(7, 90)}


def test_when_all_logs_are_incomplete_the_longest_leads_flagged_as_unclean() -> None:
    """Later epochs count before longer logs: broker 1 has more records, of a leader that was
    deposed."""
    view = view_of(NO_LEADER, (), incomplete=TAILS)
    outcome = election.among_incomplete(view, cluster(view, [1, 2, 3]), {})
    state = elected(outcome)
    assert (state.leader, state.isr, state.unclean) == (3, (3,), True)
    assert dict(state.incomplete) == {1: TAILS[1], 2: TAILS[2]}


def test_no_election_while_one_with_an_incomplete_log_is_missing() -> None:
    """Its recorded tail may be older than its log: it may have followed since."""
    view = view_of(NO_LEADER, (), incomplete=TAILS)
    why = refused(election.among_incomplete(view, cluster(view, [2, 3]), {}))[1]
    assert why == "broker 1 may have more"


def test_no_election_among_incomplete_logs_while_another_replica_has_everything() -> None:
    """Broker 1 is away with its log intact: what it has, nobody else needs to guess."""
    view = view_of(NO_LEADER, (1,), incomplete={2: TAILS[2], 3: TAILS[3]})
    why = refused(election.among_incomplete(view, cluster(view, [2, 3]), {}))[1]
    assert why == "broker 1 has everything"


def test_a_tail_that_is_asked_for_now_counts_more_than_the_one_in_the_node() -> None:
    view = view_of(NO_LEADER, (), incomplete=TAILS)
    tails = {2: Tail(7, 100)}
    assert elected(election.among_incomplete(view, cluster(view, [1, 2, 3]), tails)).leader == 2


def test_an_unclean_election_is_by_the_longest_log_not_by_the_order() -> None:
    view = view_of(NO_LEADER, (3,), incomplete={1: Tail(3, 3)})
    tails = {1: Tail(6, 500), 2: Tail(7, 80)}
    state = elected(election.unclean(view, cluster(view, [1, 2]), tails, "asked"))
    assert (state.leader, state.isr, state.unclean) == (2, (2,), True)
    assert not state.incomplete, "the log of broker 2 is the truth now"


def test_a_replica_that_did_not_tell_its_tail_is_chosen_last() -> None:
    view = view_of(NO_LEADER, (3,))
    state = elected(election.unclean(view, cluster(view, [1, 2]), {2: Tail(0, 1)}, "asked"))
    assert state.leader == 2
    assert elected(election.unclean(view, cluster(view, [1, 2]), {}, "asked")).leader == 1
    refused(election.unclean(view, cluster(view, []), {}, "asked"))


def test_operators_get_an_unclean_election_only_where_there_is_no_other() -> None:
    view = view_of(2, (2, 3))
    error, _ = refused(election.asked_for(view, cluster(view, [1, 2, 3]), Kind.UNCLEAN, {}))
    assert error == "ELECTION_NOT_NEEDED"
    clean = elected(election.asked_for(view, cluster(view, [1, 3]), Kind.UNCLEAN, {}))
    assert (clean.leader, clean.unclean) == (3, False)
    state = elected(election.asked_for(view, cluster(view, [1]), Kind.UNCLEAN, {}))
    assert (state.leader, state.unclean) == (1, True)
    error, _ = refused(election.asked_for(view, cluster(view, [2, 3]), Kind(0), {}))
    assert error == "PREFERRED_LEADER_NOT_AVAILABLE"


def test_a_flag_of_an_unclean_election_stays_until_it_was_seen() -> None:
    view = view_of(1, (1, 2))
    flagged = replace(view, state=replace(view.state, unclean=True))
    assert elected(election.offline(flagged, cluster(flagged, [2]))).unclean


def test_an_election_of_the_longest_log_begins_an_epoch_that_no_log_has() -> None:
    """ZooKeeper's data may be an older copy: the state's epoch is below those of the logs."""
    view = view_of(NO_LEADER, (), incomplete=TAILS)
    far = {3: Tail(40, 90)}
    for outcome in (
        election.among_incomplete(view, cluster(view, [1, 2, 3]), far),
        election.unclean(view, cluster(view, [1, 2, 3]), far, "asked"),
    ):
        assert isinstance(outcome, Elected)
        state = outcome.state
        assert (state.leader, state.leader_epoch, state.unclean_epoch) == (3, 41, 41)
