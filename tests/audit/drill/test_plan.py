"""The plan comes from the seed alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.errors import UserError
from tallymark_audit.drill import faults
from tallymark_audit.drill.plan import ALL_FAULTS, make_plan
from tallymark_audit.drill.topology import all_hops


@given(st.integers(0, 10_000))
def test_the_same_seed_gives_the_same_plan(seed: int) -> None:
    assert make_plan(seed, 20) == make_plan(seed, 20)


@given(st.integers(0, 10_000))
def test_every_seed_has_five_kinds_and_loss_meets_duplication(seed: int) -> None:
    plan = make_plan(seed, 20)
    assert len(set(plan.faults)) >= 5
    together = [
        hop
        for hop, orders in plan.orders.items()
        for one in orders
        for other in orders
        if one.kind == faults.DROP and other.kind == faults.DUPLICATE and one.start == other.start
    ]
    assert together


@given(st.integers(0, 10_000))
def test_corruption_meets_neither_loss_nor_duplication(seed: int) -> None:
    for orders in make_plan(seed, 20).orders.values():
        for one in orders:
            meets = [o for o in orders if o is not one and o.start < one.end and one.start < o.end]
            assert one.kind != faults.CORRUPT or not meets


@given(st.integers(0, 10_000), st.sets(st.sampled_from(ALL_FAULTS), min_size=1, max_size=8))
def test_everything_happens_while_messages_are_sent(seed: int, wanted: set[str]) -> None:
    plan = make_plan(seed, 20, sorted(wanted))
    assert set(plan.faults) == wanted
    moments = [at for orders in plan.orders.values() for o in orders for at in (o.start, o.end)]
    moments += [int(action.at * 1000) for action in plan.actions]
    assert all(0 < at < 20_000 for at in moments)
    assert [action.at for action in plan.actions] == sorted(a.at for a in plan.actions)
    wire = {order.kind for orders in plan.orders.values() for order in orders}
    assert wire == wanted & set(faults.WIRE_FAULTS)


def test_hop_and_share_can_be_chosen() -> None:
    hop = all_hops()[-1]
    plan = make_plan(1, 20, ["drop", "corrupt"], [hop], 0.5)
    assert set(plan.orders) == {hop}
    assert {order.rate for order in plan.orders[hop]} == {0.5}


@pytest.mark.parametrize(("wanted", "hops"), [(["flood"], []), ([], ["dc1-to-moon"])])
def test_what_does_not_exist_is_named(wanted: list[str], hops: list[str]) -> None:
    with pytest.raises(UserError, match="there is no"):
        make_plan(1, 20, wanted, hops)


def test_orders_are_moved_to_the_wall_clock() -> None:
    plan = make_plan(1, 20, ["drop"])
    (hop,) = plan.orders
    (order,) = plan.orders[hop]
    (moved,) = plan.orders_from(hop, 1_000_000)
    assert (moved.start, moved.end) == (order.start + 1_000_000, order.end + 1_000_000)
