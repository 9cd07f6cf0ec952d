"""The consumer's state machine, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tallymark.client.zookeeper_group.events import (
    Action,
    Changed,
    ClaimOwners,
    Close,
    CommitOffsets,
    Connected,
    Done,
    Event,
    Failed,
    Forget,
    LeaveGroup,
    LoadOffsets,
    Lost,
    Membership,
    Pause,
    Phase,
    ReadMembership,
    Refused,
    Register,
    ReleaseOwners,
    Resume,
    StartFetchers,
    State,
    Stop,
    StopFetchers,
    Suspended,
    Tick,
)
from tallymark.client.zookeeper_group.machine import BACKOFF_MAX_MS, BACKOFF_MS, decide
from tallymark.coordination.consumers.subscriptions import Subscription

TOPIC = Subscription({"t": 1})


class Machine:
    """Feeds events, keeps the state, shows the kinds of the actions."""

    def __init__(self, consumer: str = "a") -> None:
        self.state = State(consumer)
        self.actions: tuple[Action, ...] = ()
        self.now = 0

    def feed(self, event: Event) -> list[type]:
        self.state, self.actions = decide(self.state, event, self.now)
        return [type(action) for action in self.actions]

    def done(self) -> list[type]:
        return self.feed(Done(self.state.ticket))

    def failed(self) -> list[type]:
        return self.feed(Failed(self.state.ticket))

    def refused(self) -> list[type]:
        return self.feed(Refused(self.state.ticket))

    def read(
        self,
        members: Sequence[str] = ("a",),
        partitions: Mapping[str, Sequence[int]] | None = None,
    ) -> list[type]:
        found = {"t": [0, 1]} if partitions is None else partitions
        return self.feed(Membership(self.state.ticket, dict.fromkeys(members, TOPIC), found))

    def run(self) -> Machine:
        """To RUNNING with both partitions."""
        self.feed(Connected(7))
        self.done()
        self.read()
        self.done()
        self.done()
        assert self.state.phase is Phase.RUNNING
        return self


def test_the_way_to_the_first_message() -> None:
    machine = Machine()
    assert machine.feed(Connected(7)) == [Register]
    assert machine.done() == [ReadMembership]
    assert machine.read() == [ClaimOwners]
    assert machine.done() == [LoadOffsets]
    assert machine.done() == [StartFetchers]
    assert machine.actions == (StartFetchers({("t", 0): 0, ("t", 1): 0}),)


def test_a_rebalance_stops_then_stores_then_releases_then_claims() -> None:
    machine = Machine().run()
    assert machine.feed(Changed()) == [ReadMembership]
    assert machine.read(["a", "b"]) == [StopFetchers, CommitOffsets]
    assert machine.done() == [Forget, ReleaseOwners]
    assert machine.done() == [ClaimOwners]
    assert machine.done() == [LoadOffsets]
    assert machine.done() == [StartFetchers]
    assert machine.state.held == {("t", 0): 0}


def test_a_change_that_changes_nothing_for_us_does_not_interrupt() -> None:
    machine = Machine().run()
    machine.feed(Changed())
    assert machine.read() == [Resume]
    assert machine.state.phase is Phase.RUNNING


def test_a_change_during_a_rebalance_is_looked_at_afterwards() -> None:
    machine = Machine()
    machine.feed(Connected(7))
    machine.done()
    machine.read()
    assert machine.feed(Changed()) == []
    assert machine.done() == [LoadOffsets]
    assert machine.done() == [StartFetchers, ReadMembership]


def test_a_change_before_the_claim_is_looked_at_before_it() -> None:
    machine = Machine().run()
    machine.feed(Changed())
    machine.read(["a", "b"])
    machine.feed(Changed())
    assert machine.done() == [Forget, ReleaseOwners]
    assert machine.done() == [ReadMembership]


def test_a_standing_owner_node_means_release_all_wait_and_try_again() -> None:
    machine = Machine()
    machine.feed(Connected(7))
    machine.done()
    machine.read()
    assert machine.refused() == [Forget, ReleaseOwners]
    assert machine.done() == []
    assert machine.state.phase is Phase.WAITING
    machine.now = BACKOFF_MS - 1
    assert machine.feed(Tick()) == []
    machine.now = BACKOFF_MS
    assert machine.feed(Tick()) == [ReadMembership]


def test_waiting_backs_off_up_to_a_limit_and_a_change_ends_it() -> None:
    machine = Machine()
    machine.feed(Connected(7))
    machine.done()
    pauses: list[int] = []
    for _ in range(8):
        machine.read()
        machine.refused()
        machine.done()
        assert machine.state.wake_ms is not None
        pauses.append(machine.state.wake_ms - machine.now)
        assert machine.feed(Changed()) == [ReadMembership]
    assert pauses == [100, 200, 400, 800, 1600, *[BACKOFF_MAX_MS] * 3]


def test_suspension_pauses_at_once_and_the_same_session_goes_on() -> None:
    machine = Machine().run()
    assert machine.feed(Suspended()) == [Pause]
    assert machine.feed(Connected(7)) == [ReadMembership]
    assert machine.read() == [Resume]


def test_after_suspension_a_moved_partition_is_given_up_in_order() -> None:
    machine = Machine().run()
    machine.feed(Suspended())
    machine.feed(Connected(7))
    assert machine.read(["a", "b"]) == [StopFetchers, CommitOffsets]


def test_a_lost_session_voids_ownership_without_storing() -> None:
    machine = Machine().run()
    machine.feed(Suspended())
    assert machine.feed(Lost()) == [Pause, StopFetchers, Forget]
    assert machine.state.held == {}
    assert machine.feed(Connected(8)) == [Register]


def test_a_new_session_without_word_of_the_old_ones_end_voids_ownership_too() -> None:
    machine = Machine().run()
    machine.feed(Suspended())
    assert machine.feed(Connected(8)) == [Pause, StopFetchers, Forget, Register]


def test_answers_of_before_the_suspension_count_no_more() -> None:
    machine = Machine()
    machine.feed(Connected(7))
    machine.done()
    machine.read()
    ticket = machine.state.ticket
    machine.feed(Suspended())
    machine.feed(Connected(7))
    assert machine.feed(Done(ticket)) == []
    before = machine.state.phase
    machine.feed(Lost())
    machine.feed(Connected(8))
    assert machine.feed(Done(ticket)) == machine.feed(Failed(ticket)) == []
    assert (before, machine.state.phase) == (Phase.READING, Phase.REGISTERING)


def test_a_claim_of_unknown_fate_is_released_before_the_next_one() -> None:
    machine = Machine()
    machine.feed(Connected(7))
    machine.done()
    machine.read()
    machine.failed()
    machine.now = BACKOFF_MS
    assert machine.feed(Tick()) == [ReadMembership]
    assert machine.read() == [StopFetchers, CommitOffsets]
    assert machine.done() == [Forget, ReleaseOwners]
    assert machine.actions[1] == ReleaseOwners(machine.state.ticket, (("t", 0), ("t", 1)))


def test_offsets_that_could_not_be_stored_are_tried_again_before_the_release() -> None:
    machine = Machine().run()
    machine.feed(Changed())
    machine.read(["a", "b"])
    assert machine.failed() == []
    machine.now += BACKOFF_MS
    machine.feed(Tick())
    assert machine.read(["a", "b"]) == [StopFetchers, CommitOffsets]


def test_consumption_goes_on_while_the_group_cannot_be_read() -> None:
    machine = Machine().run()
    machine.feed(Changed())
    assert machine.failed() == []
    assert machine.state.running
    machine.now += BACKOFF_MS
    machine.feed(Tick())
    assert machine.read() == [Resume]


def test_a_membership_node_that_went_is_made_again_but_not_in_a_tight_loop() -> None:
    """A consumer whose node somebody else deleted, or overwrote with what nobody can read, asked
    ZooKeeper again and again without a pause."""
    machine = Machine().run()
    machine.feed(Changed())
    assert machine.read(["b"]) == []
    assert machine.state.running
    machine.now += BACKOFF_MS
    assert machine.feed(Tick()) == [Register]
    assert machine.done() == [ReadMembership]
    assert machine.read() == [Resume]


def test_leaving_in_order() -> None:
    machine = Machine().run()
    assert machine.feed(Stop()) == [StopFetchers, CommitOffsets]
    assert machine.done() == [Forget, ReleaseOwners]
    assert machine.done() == [LeaveGroup]
    assert machine.done() == [StopFetchers, Forget, Close]
    assert machine.feed(Connected(9)) == []


def test_leaving_never_hangs() -> None:
    machine = Machine().run()
    machine.feed(Stop())
    assert machine.failed() == [Forget, ReleaseOwners]
    assert machine.failed() == [LeaveGroup]
    assert machine.failed() == [StopFetchers, Forget, Close]
    suspended = Machine().run()
    suspended.feed(Stop())
    assert suspended.feed(Suspended()) == [StopFetchers, Forget, Close]
    offline = Machine()
    assert offline.feed(Stop()) == [StopFetchers, Forget, Close]


def test_a_topic_without_partitions_is_waited_for() -> None:
    machine = Machine()
    machine.feed(Connected(7))
    machine.done()
    assert machine.read(partitions={}) == [ClaimOwners]
    machine.done()
    assert machine.done() == [StartFetchers]
    assert machine.feed(Changed()) == [ReadMembership]
    assert machine.read() == [ClaimOwners]  # nothing is held: nothing to give up first


def test_a_consumer_without_partitions_does_not_believe_a_claim_that_failed() -> None:
    """A consumer that owned nothing counted as running; the connection dropped during its first
    real claim, and when it came back the claim was taken for owned and consumed: nobody fetched
    those partitions any more. Found by the simulation."""
    machine = Machine()
    machine.feed(Connected(7))
    machine.done()
    machine.read(partitions={})
    machine.done()
    assert machine.done() == [StartFetchers]
    machine.feed(Changed())
    assert machine.read() == [ClaimOwners]
    machine.failed()
    machine.feed(Suspended())
    machine.feed(Connected(7))
    assert machine.read() == [StopFetchers, CommitOffsets]


def test_a_claim_names_its_session() -> None:
    """A claim waited for the connection, and was made when it came back, in a new session; the
    news that the old one was lost came after, and nobody remembered the claim: the partitions
    were owned by a consumer that did not know. Found by the simulation."""
    machine = Machine()
    machine.feed(Connected(7))
    machine.done()
    machine.read()
    assert machine.actions == (ClaimOwners(machine.state.ticket, (("t", 0), ("t", 1)), 7),)
