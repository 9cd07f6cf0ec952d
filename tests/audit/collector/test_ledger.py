"""What several rounds of reading come to in one commit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tallymark_audit.collector.ledger import CountedFetch, Ledger
from tallymark_audit.store import open_store
from tallymark_audit.store.counted.positions import PartitionFencedError, Position

T0 = "topic", 0


def at(offset: int, partition: int = 0) -> Position:
    return Position("topic", partition, "id", offset, generation=1)


def stored(ledger: Ledger) -> dict[tuple[str, int], int]:
    ledger.reload()
    return {place: position.next_offset for place, position in ledger.positions.items()}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with open_store(f"sqlite:///{tmp_path}/audit.db") as store:
        made = Ledger(store, "dc1")
        made.take([Position("topic", 0, "id"), Position("topic", 1, "id")])
        yield made


def test_rounds_of_one_partition_are_one_move(ledger: Ledger) -> None:
    ledger.commit(
        [
            CountedFetch(0, at(3)),
            CountedFetch(0, at(7, 1)),
            CountedFetch(3, at(3)),
            CountedFetch(3, at(9)),
        ],
        1,
    )
    assert stored(ledger) == {T0: 9, ("topic", 1): 7}


@pytest.mark.parametrize("second", [2, 4])
def test_rounds_that_do_not_follow_each_other_are_refused(ledger: Ledger, second: int) -> None:
    """Whatever went wrong, records in between would be missed or counted twice."""
    with pytest.raises(PartitionFencedError, match="from offset"):
        ledger.commit([CountedFetch(0, at(3)), CountedFetch(second, at(9))], 1)
    assert stored(ledger)[T0] == 0
