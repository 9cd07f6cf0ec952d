"""The plan comes from the seed alone."""

import hashlib
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.errors import UserError
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.proof.drill.faults import kinds
from tallymark_audit.proof.drill.planning.plan import ALL_FAULTS, DrillPlan, make_drill_plan
from tallymark_audit.proof.drill.planning.topology import CONSUMER_HOP, all_hops, broker_of

SEED_7 = ("duplicate-batch", "kill-broker", "pause-producer", "reorder")


@given(st.integers(0, 10_000))
def test_the_same_seed_gives_the_same_plan(seed: int) -> None:
    assert make_drill_plan(seed, 20) == make_drill_plan(seed, 20)


@given(st.integers(0, 10_000))
def test_every_seed_has_five_kinds_and_loss_meets_duplication(seed: int) -> None:
    plan = make_drill_plan(seed, 20)
    assert len(set(plan.faults)) >= 5
    together = [
        hop
        for hop, orders in plan.orders.items()
        for one in orders
        for other in orders
        if one.kind == kinds.DROP and other.kind == kinds.DUPLICATE and one.start == other.start
    ]
    assert together


@given(st.integers(0, 10_000))
def test_corruption_meets_neither_loss_nor_duplication(seed: int) -> None:
    for orders in make_drill_plan(seed, 20).orders.values():
        for one in orders:
            meets = [o for o in orders if o is not one and o.start < one.end and one.start < o.end]
            in_data = [o for o in meets if o.kind != kinds.FLIP_EVENTS]
            assert one.kind != kinds.CORRUPT or not in_data


@given(st.integers(0, 10_000), st.sampled_from((1, 3)), st.data())
def test_everything_happens_while_messages_are_sent(
    seed: int, brokers: int, data: st.DataObject
) -> None:
    refused = kinds.REPLICA_FAULTS if brokers == 1 else kinds.ONE_COPY_FAULTS
    known = st.sampled_from([kind for kind in ALL_FAULTS if kind not in refused])
    wanted = data.draw(st.sets(known, min_size=1, max_size=8))
    plan = make_drill_plan(seed, 20, sorted(wanted), brokers=brokers)
    assert set(plan.faults) == wanted
    moments = [at for orders in plan.orders.values() for o in orders for at in (o.start, o.end)]
    moments += [int(action.at * 1000) for action in plan.actions]
    assert all(0 < at < 20_000 for at in moments)
    assert [action.at for action in plan.actions] == sorted(a.at for a in plan.actions)
    wire = {order.kind for orders in plan.orders.values() for order in orders}
    assert wire == wanted & set(kinds.WIRE_FAULTS)


@given(st.integers(0, 1_000))
def test_of_ten_seeds_each_side_fault_is_in_two(tens: int) -> None:
    """Faults that no seed draws are proven by nobody: twenty seeds have each of them four times."""
    drawn = Counter(kind for seed in range(10 * tens, 10 * tens + 10) for kind in pair(seed))
    assert drawn == dict.fromkeys(kinds.DRAWN_FAULTS, 2)


def pair(seed: int) -> set[str]:
    plan = make_drill_plan(seed, 24)
    found = {kind for kind in plan.faults if kind in kinds.SIDE_FAULTS}
    assert len(found) == 2
    assert {topic.name for topic in plan.topics} <= found
    assert {action.kind for action in plan.actions if action.kind in kinds.SIDE_FAULTS} == (
        found - {kinds.FLIP_EVENTS}
    )
    return found


@settings(max_examples=20)
@given(st.integers(0, 1_000))
def test_of_ten_seeds_of_three_brokers_each_side_fault_is_in_two_or_more(tens: int) -> None:
    drawn: Counter[str] = Counter()
    for seed in range(10 * tens, 10 * tens + 10):
        plan = make_drill_plan(seed, 24, brokers=3)
        side = [kind for kind in plan.faults if kind in kinds.SIDE_FAULTS]
        assert len(side) == len(set(plan.faults)) - 7 == 3
        assert kinds.KILL_LEADER in plan.faults
        assert not set(plan.faults) & set(kinds.ONE_COPY_FAULTS)
        drawn.update(side)
    whole = [kind for kind in kinds.DRAWN_FAULTS if kind not in kinds.ONE_COPY_FAULTS]
    assert drawn.pop(kinds.TRANSACTIONS) == 10
    assert drawn == dict.fromkeys(kinds.FAILOVER_FAULTS, 5) | dict.fromkeys(whole, 2)


@given(st.integers(0, 10_000))
def test_of_three_brokers_any_may_be_the_one_that_is_killed(seed: int) -> None:
    plan = make_drill_plan(seed, 24, ["kill-broker", kinds.KILL_LEADER], brokers=3)
    assert plan == make_drill_plan(seed, 24, ["kill-broker", kinds.KILL_LEADER], brokers=3)
    names = {action.kind: action.name for action in plan.actions}
    clusters = {"dc1", "dc2", "aggregate"}
    assert names["kill-broker"] in {broker_of(one, node) for one in clusters for node in range(3)}
    assert names[kinds.KILL_LEADER] in clusters


def test_the_topic_of_an_unclean_election_allows_it_at_home() -> None:
    (topic,) = make_drill_plan(1, 24, [kinds.UNCLEAN_ELECTION], brokers=3).topics
    assert dict(topic.at_home)["unclean.leader.election.enable"] == "true"
    assert topic.partitions == 1
    (other,) = make_drill_plan(1, 24, [kinds.LOST_IN_FAILOVER], brokers=3).topics
    assert other.at_home == ()


@pytest.mark.parametrize(
    ("kind", "brokers", "more"),
    [(kinds.UNCLEAN_ELECTION, 1, "--brokers 3"), (kinds.LOST_SEGMENT, 3, "--brokers 1")],
)
def test_faults_that_need_one_copy_or_several_say_so(kind: str, brokers: int, more: str) -> None:
    """A segment that one of three brokers has lost, readers get from another: a drill would wait
    for a loss that is none."""
    with pytest.raises(UserError) as caught:
        make_drill_plan(1, 24, [kind], brokers=brokers)
    assert more in str(caught.value)


def test_who_was_drawn_before_side_faults_were_made_is_drawn_still() -> None:
    """A seed is told to others: what it did must not change because there is more to draw."""
    plan = make_drill_plan(7, 24)
    main = [kind for kind in plan.faults if kind not in kinds.SIDE_FAULTS]
    assert main == ["drop", "duplicate", "corrupt", *SEED_7]


def test_of_one_broker_a_cluster_the_plans_are_as_they_always_were() -> None:
    """Clusters of three brokers draw more. What forty seeds did before stays, to the second."""
    plans = [written(make_drill_plan(seed, 24)) for seed in range(1, 41)]
    digest = hashlib.sha256(json.dumps(plans, sort_keys=True).encode()).hexdigest()
    assert digest == "9cf53da9f34b3b635b3a48009e414a0738ef8446c46b3f604326291fac0e6daa"


def written(plan: DrillPlan) -> dict[str, Any]:
    """What is done, when, to whom."""
    return {
        "faults": list(plan.faults),
        "senders": [[s.name, s.cluster, s.offset_ms, s.topic, s.partitions] for s in plan.senders],
        "orders": {
            hop: [[o.kind, o.start, o.end, o.rate, o.most, o.seconds] for o in orders]
            for hop, orders in plan.orders.items()
        },
        "actions": [[a.at, a.kind, a.name, a.seconds] for a in plan.actions],
        "topics": [[t.name, t.home, t.partitions, t.segment_bytes] for t in plan.topics],
    }


def test_faults_of_the_wire_leave_topics_alone_that_have_a_fault_of_their_own() -> None:
    """A mirror's requests hold batches of several topics."""
    for kind in kinds.WIRE_FAULTS:
        assert not kinds.concerns(kind, kinds.LOST_SEGMENT)
    assert kinds.concerns(kinds.DROP, "orders")
    assert kinds.concerns(kinds.FLIP_EVENTS, AUDIT_TOPIC)


@given(st.integers(0, 10_000))
def test_bits_turn_where_no_producer_says_its_last_words(seed: int) -> None:
    """The one report that a killed producer's journal gave was damaged, so its run stayed silent
    and its windows UNKNOWN, as they have to; the drill called that undecided."""
    plan = make_drill_plan(seed, 24, ["kill-producer", kinds.FLIP_EVENTS])
    (killed,) = [action.name for action in plan.actions]
    assert f"producer-to-{killed.split('-')[1]}" not in plan.orders
    assert len(plan.orders) == 2


@pytest.mark.parametrize("kind", kinds.CONSUMER_KILLS)
def test_who_kills_members_of_a_group_has_a_group(kind: str) -> None:
    plan = make_drill_plan(1, 20, [kind])
    assert plan.orders == {CONSUMER_HOP: []}
    assert [(action.kind, action.name) for action in plan.actions] == [(kind, CONSUMER_HOP)]


def test_hop_and_share_can_be_chosen() -> None:
    hop = all_hops()[-1]
    plan = make_drill_plan(1, 20, ["drop", "corrupt"], [hop], 0.5)
    assert set(plan.orders) == {hop}
    assert {order.rate for order in plan.orders[hop]} == {0.5}


@pytest.mark.parametrize(("wanted", "hops"), [(["flood"], []), ([], ["dc1-to-moon"])])
def test_what_does_not_exist_is_named(wanted: list[str], hops: list[str]) -> None:
    with pytest.raises(UserError, match="there is no"):
        make_drill_plan(1, 20, wanted, hops)


def test_orders_are_moved_to_the_wall_clock() -> None:
    plan = make_drill_plan(1, 20, ["drop"])
    (hop,) = plan.orders
    (order,) = plan.orders[hop]
    (moved,) = plan.orders_from(hop, 1_000_000)
    assert (moved.start, moved.end) == (order.start + 1_000_000, order.end + 1_000_000)
