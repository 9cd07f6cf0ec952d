"""Idle transactional ids: none is lost, and adding one moves few others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tallymark.transactions.idle_ids import IdleIds
from tallymark.transactions.state import TransactionsState, record_of, tombstone
from tallymark.transactions.transaction import State, Transaction

IDS = st.text(max_size=3)
STEPS = st.lists(st.tuples(IDS, st.none() | st.binary(max_size=3)), max_size=60)


@given(STEPS)
def test_they_are_a_dict_in_another_order(steps: list[tuple[str, bytes | None]]) -> None:
    ids, model = IdleIds(), dict[str, bytes]()
    for each, value in steps:
        if value is None:
            assert ids.pop(each) == model.pop(each, None)
        else:
            ids.put(each, value)
            model[each] = value
        assert ids.get(each) == model.get(each)
    assert {each: ids.get(each) for each in ids} == model
    assert sorted(ids) == sorted(model)
    assert len(ids) == len(model)
    again = IdleIds()
    for each, value in sorted(model.items()):
        again.put(each, value)
    assert again == ids


def test_no_part_of_100_000_ids_is_so_large_that_its_growth_holds_the_event_loop() -> None:
    """All were in one dict, which moved 87,000 ids at once when it grew: 5 ms of a coordinator that
    loads them, in which nothing else runs."""
    ids = IdleIds()
    for number in range(100_000):
        ids.put(f"application-of-a-team-{number}", b"")
    assert len(ids) == 100_000
    assert max(map(len, ids.parts)) < 2_000


def idle(transactional_id: str, producer_id: int = 7) -> Transaction:
    return Transaction(transactional_id, producer_id, 3, 50, State.EMPTY, frozenset(), 0)


def test_one_that_looks_at_all_ids_sees_each_as_it_is_when_its_turn_comes() -> None:
    """All were copied first, as pairs, which held the event loop; records come meanwhile."""
    state = TransactionsState()
    for each in "abcd":
        state.replay(record_of(idle(each)))
    looked = iter(state)
    seen = [next(looked)]
    first, second, third = sorted(set("abcd") - {seen[0].transactional_id})
    state.replay(tombstone(first))
    state.replay(record_of(idle(second, producer_id=8)))
    begun = Transaction(third, 7, 3, 50, State.ONGOING, frozenset({("t", 0)}), 0, 0)
    state.replay(record_of(begun))
    state.replay(record_of(idle("e")))
    rest = {one.transactional_id: one for one in looked}
    assert rest == {second: idle(second, producer_id=8), third: begun}
