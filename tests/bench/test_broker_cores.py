"""The pure parts of ``bench/broker.py --brokers 2``."""

from __future__ import annotations

from support.broker_cores import cores_table, split_cores, works


def test_clients_have_the_cores_that_brokers_leave() -> None:
    assert split_cores([0, 1, 2, 3], 2) == ([0, 1], [2, 3])
    assert split_cores([4, 6], 1) == ([4], [6])


def test_clients_share_where_brokers_take_all_cores() -> None:
    assert split_cores([0, 1], 2) == ([0, 1], [0, 1])
    assert split_cores([0], 2) == ([0, 0], [0])


def test_each_row_is_compared_with_one_broker() -> None:
    one = {"messages": 1000.0, "seconds": 1.0, "cpu_seconds": 0.5}
    two = {"messages": 2000.0, "seconds": 1.25, "cpu_seconds": 1.25}
    *_, last = cores_table({("produce", 2): two, ("produce", 1): one}).splitlines()
    cells = [cell.strip() for cell in last.strip("|").split("|")]
    assert cells == ["produce", "2", "1,600", "1.60", "1,600", "0.80", "1.00"]


def test_what_is_fetched_was_produced_before() -> None:
    produced: dict[int, int] = {}
    for work in works(2):
        if work.job == "produce":
            produced[work.size] = produced.get(work.size, 0) + work.count
        else:
            assert work.count <= produced[work.size]
