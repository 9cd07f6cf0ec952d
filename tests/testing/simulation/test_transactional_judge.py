"""A forged history for each check of the judge of whole brokers with transactions, which it must
find. A check that finds nothing in a forged history would find nothing in a run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

import pytest

from tallymark.broker.coordinators.state_log import replay_log
from tallymark.groups.records import CommittedOffset, OffsetKey, encode_key, encode_value
from tallymark.groups.state import GroupsState
from tallymark.protocol.records.batch import encode_batch, place_batch
from tallymark.protocol.records.markers import Marker, marker_batch
from tallymark.protocol.topic_partition import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tallymark.testing.simulation.invariants import BrokenInvariantError
from tallymark.testing.simulation.transactions.judging import Judge, hanging
from tallymark.transactions.state import TransactionsState, record_of
from tallymark.transactions.transaction import State, Transaction

TOPIC = "simulated"
Pair = tuple[bytes | None, bytes | None]


def batch(*pairs: Pair, producer: int = -1, epoch: int = -1) -> bytes:
    return encode_batch(
        [(key, value, (), 0) for key, value in pairs],
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=min(0, producer),
        transactional=producer >= 0,
    )


def values(*texts: bytes, producer: int = 7, epoch: int = 0) -> bytes:
    return batch(*((None, text) for text in texts), producer=producer, epoch=epoch)


def marker(commit: bool, producer: int = 7, epoch: int = 0) -> bytes:
    return bytes(marker_batch(Marker(commit, 0), producer, epoch, 0))


def partition(topic: str, *batches: bytes, stable: int | None = None) -> Any:
    """One whose log has these, one after the other."""
    data, end = bytearray(), 0
    for each in batches:
        placed = bytearray(each)
        place_batch(placed, 0, end, 0)
        data += placed
        end += int.from_bytes(each[57:61], "big")  # the count of its records
    read = SimpleNamespace(read=lambda: bytes(data), next_offset=end)
    log = SimpleNamespace(start_offset=0, end_offset=end, read=lambda at, most: read)
    at = end if stable is None else stable
    return SimpleNamespace(topic=topic, index=0, leader_epoch=0, log=log, last_stable_offset=at)


def breaks(name: str) -> AbstractContextManager[object]:
    return pytest.raises(BrokenInvariantError, match=f"^{name}: ")


def test_a_transaction_with_two_kinds_of_markers_is_found() -> None:
    first, second = values(b"<7:1>"), values(b"<7:2>")
    Judge().logs([partition(TOPIC, first, marker(True)), partition(TOPIC, second, marker(True))])
    with breaks("all_or_nothing"):
        Judge().logs(
            [partition(TOPIC, first, marker(True)), partition(TOPIC, second, marker(False))]
        )


def test_a_batch_of_a_zombie_is_found() -> None:
    newer = values(b"<8:1>", epoch=1)
    Judge().logs([partition(TOPIC, values(b"<7:1>"), newer)])
    with breaks("zombies_write_nothing"):
        Judge().logs([partition(TOPIC, newer, values(b"<7:1>"))])
    Judge().logs([partition(TOPIC, newer, values(b"<7:1>", producer=9))])


def decided(*states: State) -> Any:
    found = [Transaction("t0", 7, 0, 1, state, frozenset(), 0, 0) for state in states]
    return partition(TRANSACTIONS_TOPIC, *(batch(record_of(each)) for each in found))


@pytest.mark.parametrize(
    ("prepared", "right", "wrong"),
    [
        (State.PREPARE_COMMIT, State.COMPLETE_COMMIT, State.COMPLETE_ABORT),
        (State.PREPARE_ABORT, State.COMPLETE_ABORT, State.COMPLETE_COMMIT),
    ],
)
def test_a_decision_that_is_turned_round_is_found(
    prepared: State, right: State, wrong: State
) -> None:
    Judge().logs([decided(State.ONGOING, prepared, right)])
    Judge().logs([decided(prepared, State.EMPTY)])  # compaction took what was between
    with breaks("decision_is_final"):
        Judge().logs([decided(State.ONGOING, prepared, wrong)])


def test_a_last_stable_offset_that_falls_is_found() -> None:
    host: Any = SimpleNamespace(lives=1)
    judge, at = Judge(), partition(TOPIC, values(b"<7:1>"), stable=5)
    judge.lso_never_falls_in_an_epoch(host, at)
    at.last_stable_offset = 4
    with breaks("lso_never_falls_in_an_epoch"):
        judge.lso_never_falls_in_an_epoch(host, at)
    host.lives = 2  # it was killed: what it showed last may be lost with its memory
    judge.lso_never_falls_in_an_epoch(host, at)
    at.leader_epoch, at.last_stable_offset = 1, 3
    judge.lso_never_falls_in_an_epoch(host, at)


def broker(ids: Sequence[Any] = (), groups: Sequence[Any] = (), led: Sequence[Any] = ()) -> Any:
    """What the judge looks at of a broker's state."""
    return SimpleNamespace(
        transaction_shards=SimpleNamespace(shards=lambda: ids),
        group_shards=SimpleNamespace(shards=lambda: groups),
        partitions=SimpleNamespace(led=lambda: led),
    )


def ids_in(state: State) -> Any:
    """A shard that remembers this of the id whose log says Ongoing."""
    remembered = TransactionsState()
    remembered.replay(record_of(Transaction("t0", 7, 0, 1, state, frozenset(), 0, 0)))
    return SimpleNamespace(partition=decided(State.ONGOING), state=remembered)


def group_at(offset: int) -> Any:
    """A shard that remembers this offset of the group whose log says 5."""

    def log(position: int) -> Any:
        stored = CommittedOffset(position, -1, "", 0, -1)
        return partition(
            OFFSETS_TOPIC, batch((encode_key(OffsetKey("g", TOPIC, 0)), encode_value(stored)))
        )

    return SimpleNamespace(partition=log(5), state=replay_log(log(offset).log, GroupsState()))


def test_memory_that_is_not_what_the_log_says_is_found() -> None:
    Judge().live_equals_replayed(broker([ids_in(State.ONGOING)], [group_at(5)]))
    with breaks("live_equals_replayed"):
        Judge().live_equals_replayed(broker([ids_in(State.EMPTY)]))
    with breaks("live_equals_replayed"):
        Judge().live_equals_replayed(broker(groups=[group_at(6)]))


def test_what_hangs_is_named() -> None:
    def host(state: Any, serves: bool = True) -> Any:
        return SimpleNamespace(name="b1", serves=serves, broker=SimpleNamespace(state=state))

    at_its_end = partition(TOPIC, values(b"<7:1>"))
    assert hanging([host(broker([ids_in(State.COMPLETE_COMMIT)], led=[at_its_end]))]) == ""
    assert hanging([host(None)]) == "b1 is down"
    assert hanging([host(broker(), serves=False)]) == "b1 is down"
    assert hanging([host(broker([ids_in(State.ONGOING)]))]) == "t0 is ONGOING"
    assert hanging([host(broker([ids_in(State.PREPARE_ABORT)]))]) == "t0 is PREPARE_ABORT"
    behind = partition(TOPIC, values(b"<7:1>"), stable=0)
    assert "stands at 0" in hanging([host(broker(led=[behind]))])
