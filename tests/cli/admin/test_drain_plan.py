"""What it takes to empty a broker, of leads or of all."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.cli.admin.leads.draining import Held, leads_away, replicas_away
from tallymark.errors import KafkaError
from tallymark.protocol.topic_partition import TopicPartition


def t(*held: Held) -> dict[TopicPartition, Held]:
    return {("t", index): one for index, one in enumerate(held)}


def test_a_broker_becomes_the_last_choice_and_who_is_in_sync_the_first() -> None:
    found = leads_away(
        t(
            Held(1, (1, 2, 3), (1, 3)),
            Held(2, (2, 1, 3), (1, 2, 3)),
            Held(2, (2, 3, 1), (1, 2, 3)),
            Held(2, (2, 3), (2, 3)),
        ),
        1,
        (1, 2, 3),
    )
    assert found.orders == {("t", 0): (3, 2, 1), ("t", 1): (2, 3, 1)}
    assert found.elections == [("t", 0)]
    assert not found.stay


def test_what_cannot_move_is_said_with_the_reason() -> None:
    moving = Held(1, (1, 2, 4), (1, 2))
    found = leads_away(
        t(Held(1, (1,), (1,)), Held(1, (1, 2), (1,)), Held(1, (1, 3), (1, 3)), moving),
        1,
        (1, 2),
        moving={("t", 3)},
    )
    assert not found.orders
    assert not found.elections
    assert found.stay == {
        ("t", 0): "it has one replica",
        ("t", 1): "no other replica is in sync",
        ("t", 2): "no other replica is in sync",
        ("t", 3): "its replicas are moving",
    }


def test_a_second_run_leaves_alone_what_is_on_its_way() -> None:
    """Metadata shows all replicas of a move, those that go, too: taken for the partition's own,
    a second run would have asked for a partition of four."""
    partitions = t(Held(1, (4, 2, 3, 1), (1, 2, 3)), Held(1, (1, 2, 3), (1, 2, 3)))
    found = replicas_away(partitions, 1, dict.fromkeys((1, 2, 3, 4), ""), {("t", 0): (4, 2, 3)})
    assert {key: set(replicas) for key, replicas in found.items()} == {("t", 1): {2, 3, 4}}


def test_too_few_brokers_are_refused() -> None:
    with pytest.raises(KafkaError, match="t-0 would have 3 replicas on 2 brokers"):
        replicas_away(t(Held(1, (1, 2, 3), (1, 2, 3))), 1, dict.fromkeys((1, 2, 3), ""), {})


@given(st.data())
def test_a_drained_broker_holds_and_leads_nothing(data: st.DataObject) -> None:
    live = data.draw(st.lists(st.integers(1, 6), min_size=3, max_size=6, unique=True))
    drawn = data.draw(
        st.lists(st.lists(st.sampled_from(live), min_size=2, max_size=2, unique=True), max_size=8)
    )
    partitions = t(*(Held(one[0], tuple(one), tuple(one)) for one in drawn))
    gone = live[0]
    found = leads_away(partitions, gone, live)
    assert not found.stay
    for key, held in partitions.items():
        order = found.orders.get(key, held.replicas)
        assert Counter(order) == Counter(held.replicas), "nothing is copied"
        if gone in held.replicas:
            assert order[-1] == gone
        assert (key in found.elections) == (held.leader == gone)
    after = {
        key: Held(
            (order := found.orders.get(key, held.replicas))[0]
            if key in found.elections
            else held.leader,
            order,
            held.isr,
        )
        for key, held in partitions.items()
    }
    again = leads_away(after, gone, live)
    assert not any(again), "done in one step"
    moves = replicas_away(partitions, gone, dict.fromkeys(live, ""), {})
    assert set(moves) == {key for key, held in partitions.items() if gone in held.replicas}
    assert not any(gone in replicas for replicas in moves.values())
