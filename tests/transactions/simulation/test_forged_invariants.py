"""A forged step for each invariant of simulated transactions that no mutation breaks
(``test_mutations.py`` has the others): the check must find it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

import pytest
from txn_invariants import Broken, Invariants

from tallymark.transactions.state import record_of
from tallymark.transactions.transaction import State, Transaction

PLACE = ("t", 0)
VALUE = (7, 1)
"""The first record of transaction 7."""


def invariants(phase: str = "", copied: dict[Any, Any] | None = None) -> Invariants:
    """Of a world whose transaction 7 is in this phase."""
    world: Any = SimpleNamespace(
        transactions={7: SimpleNamespace(phase=phase)},
        copied=copied or {},
        agenda=SimpleNamespace(now_ms=0),
    )
    return Invariants(world)


def breaks(name: str) -> AbstractContextManager[object]:
    return pytest.raises(Broken, match=f"^{name}: ")


def partition(*, seen: bool) -> Any:
    """With one record, behind which readers of committed ones have come."""
    header = SimpleNamespace(base_offset=0, last_offset=0)
    return SimpleNamespace(
        place=PLACE,
        last_stable_offset=1,
        entries=[SimpleNamespace(header=header, records=(VALUE,))],
        read_committed=lambda start, until: [(0, VALUE)] if seen else [],
    )


def batch(epoch: int) -> Any:
    return SimpleNamespace(producer_id=7, producer_epoch=epoch)


def given(check: Invariants, epoch: int) -> None:
    """The coordinator's record is committed, and a client has the identity."""
    state = Transaction("id", 7, epoch, 1, State.EMPTY, frozenset(), 0)
    check.decided(record_of(state))
    client: Any = SimpleNamespace(name="id")
    check.given(client, (7, epoch))


def test_a_batch_of_a_zombie_is_found() -> None:
    check = invariants()
    with breaks("zombies_write_nothing"):
        check.written(partition(seen=False), batch(0), (VALUE,))  # which no coordinator gave
    given(check, 0)
    check.written(partition(seen=False), batch(0), (VALUE,))
    given(check, 1)
    check.written(partition(seen=False), batch(1), (VALUE,))
    with breaks("zombies_write_nothing"):
        check.written(partition(seen=False), batch(0), (VALUE,))


def test_a_committed_record_that_readers_have_passed_by_is_found() -> None:
    invariants("committed").moved(partition(seen=True))
    invariants("aborted").moved(partition(seen=False))
    with breaks("no_committed_record_is_missing_below_the_lso"):
        invariants("committed").moved(partition(seen=False))


def test_an_aborted_record_that_readers_see_is_found() -> None:
    invariants("commit asked").moved(partition(seen=True))
    with breaks("no_aborted_record_is_visible"):
        invariants("abort asked").moved(partition(seen=True))


@pytest.mark.parametrize("copied", [["b"], ["a", "a"], ["a", "b", "c"]])
def test_a_copy_that_is_not_the_beginning_of_its_source_is_found(copied: list[str]) -> None:
    """Left out, twice, made up."""
    source = {0: "a", 3: "b"}
    copy = dict(enumerate(range(len(copied))))
    check = invariants(copied={0: "a", 1: "b"})
    check.exactly_once_through_the_copy(source, {0: 0, 1: 1})
    check.exactly_once_through_the_copy(source, {0: 0})
    with breaks("exactly_once_through_the_copy"):
        invariants(copied=dict(enumerate(copied))).exactly_once_through_the_copy(source, copy)
