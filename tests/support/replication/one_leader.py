"""The leader's side of the partition t-0 in leader epoch 3, as tests of it begin."""

from __future__ import annotations

from dataclasses import replace

from tallymark.replication.leading import Leader
from tallymark.replication.model import (
    Assignment,
    BrokerView,
    ChangeState,
    PartitionState,
    PartitionView,
    Tail,
)
from tallymark.replication.progress import FollowerFetch, LogAtElection

EPOCHS = ((0, 0), (3, 10))
BROKERS = {one: BrokerView(one, epoch=one * 10) for one in (1, 2, 3, 4)}
LAG_MS = 30_000


def leader(
    isr: tuple[int, ...] = (1, 2, 3),
    *,
    replicas: tuple[int, ...] = (1, 2, 3),
    min_insync: int = 2,
    end: int = 10,
    high_watermark: int = 5,
    now_ms: int = 0,
    incomplete: dict[int, Tail] | None = None,
) -> Leader:
    """Broker 1 leads; what came before ended at ``end``."""
    state = PartitionState(1, 3, isr, version=7, incomplete=incomplete or {})
    view = PartitionView(Assignment(replicas), state, min_insync)
    log = LogAtElection(end, high_watermark)
    return Leader(1, ("t", 0), view, log, BROKERS, now_ms, LAG_MS)


def fetch(
    one: Leader, broker: int, offset: int, now_ms: int = 0, *, epoch: int | None = None
) -> None:
    """``broker`` has all before ``offset``."""
    last_epoch = 3 if offset > 10 else 0
    told = FollowerFetch(broker, epoch if epoch is not None else broker * 10, offset, last_epoch)
    assert one.fetched(told, EPOCHS, now_ms) is None


def wish(one: Leader) -> ChangeState:
    """The change that is due."""
    change = one.wish()
    assert change is not None
    return change


def written(change: ChangeState) -> PartitionState:
    """What the node holds then."""
    return replace(change.state, version=change.expected + 1)
