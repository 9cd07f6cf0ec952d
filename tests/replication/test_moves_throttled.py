"""Which replicas and brokers a limit for moves names."""

from __future__ import annotations

from tallymark.broker.settings.topic_configs import value_of
from tallymark.replication.throttle import (
    LONGEST_LIST,
    MoveThrottles,
    MovingReplicas,
    ThrottledTopic,
    throttles_for,
)


def test_where_it_may_come_from_and_who_copies_are_limited() -> None:
    """Any of the replicas may lead before the move is over."""
    moves = {
        ("t", 1): MovingReplicas((1, 2), (2, 3)),
        ("t", 0): MovingReplicas((2, 1), (4, 3)),
        ("u", 0): MovingReplicas((5,), (6,)),
    }
    assert throttles_for(moves) == MoveThrottles(
        {
            "t": ThrottledTopic("0:1,0:2,1:1,1:2", "0:3,0:4,1:3"),
            "u": ThrottledTopic("0:5", "0:6"),
        },
        frozenset({1, 2, 3, 4, 5, 6}),
    )


def test_a_move_that_copies_nothing_limits_nothing() -> None:
    moves = {("t", 0): MovingReplicas((1, 2, 3), (3, 1))}
    assert throttles_for(moves) == MoveThrottles({}, frozenset())


def test_a_list_that_is_too_long_for_a_setting_is_all() -> None:
    moves = {("t", index): MovingReplicas((1, 2, 3), (4, 5, 6)) for index in range(5000)}
    lists = throttles_for(moves).topics["t"]
    assert (lists.leaders, lists.followers) == ("*", "*")
    moves = {key: moves[key] for key in list(moves)[:1000]}
    lists = throttles_for(moves).topics["t"]
    assert len(lists.leaders) <= LONGEST_LIST
    assert len(str(value_of("leader.replication.throttled.replicas", lists.leaders))) > 3000
