"""Elections that an operator asks for (ElectLeaders), by compare-and-set from any broker.

Nothing of them needs the controller: a change names the version of the state that it was decided
from, so of an operator's election and the controller's one is written, and the other one is decided
again. An unclean election needs to know where logs end; the caller asks for that in between::

    elect(kind, partitions) ─▶ done, failed, and brokers to ask ─▶ elect(..., tails) ─▶ done, failed
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tallymark.coordination.cluster.controller import ControllerElection
from tallymark.coordination.replicas.picture import PictureReader
from tallymark.coordination.replicas.writing import Fate, ReplicaWriter
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.coordination.topics.writer import TopicWriter
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication import in_sync
from tallymark.replication.election import Elected, Kind, Tails, asked_for
from tallymark.replication.model import (
    DEFAULTS,
    ChangeState,
    PartitionView,
    Picture,
    TopicSettings,
)
from tallymark.replication.telling import Telling

_ATTEMPTS: Final = 10


@dataclass(slots=True)
class Elections:
    """``failed`` were not held, with the errors of KIP-460; ``ask`` are brokers that must tell
    first where their logs end, ``views`` the partitions that this is about. All others are
    done."""

    failed: dict[TopicPartition, KafkaError] = field(
        default_factory=dict[TopicPartition, KafkaError]
    )
    ask: dict[TopicPartition, tuple[int, ...]] = field(
        default_factory=dict[TopicPartition, tuple[int, ...]]
    )
    views: dict[TopicPartition, PartitionView] = field(
        default_factory=dict[TopicPartition, PartitionView]
    )


class Elector:
    """Holds the elections that one broker is asked for. Not thread-safe."""

    def __init__(
        self, zookeeper: ZooKeeper, now_ms: Callable[[], int], defaults: TopicSettings = DEFAULTS
    ) -> None:
        self._now_ms = now_ms
        self._reader = PictureReader(zookeeper, defaults)
        self._guards = TopicWriter(zookeeper)
        self._writer = ReplicaWriter(zookeeper, Telling(every_ms=0))  # it has no later
        self._election = ControllerElection(zookeeper, -1, now_ms)

    def elect(
        self,
        kind: Kind,
        partitions: Iterable[TopicPartition],
        tails: Mapping[TopicPartition, Tails] | None = None,
    ) -> Elections:
        """Elect a leader of each. ``tails`` are answers to an earlier ``ask``: of the partitions in
        it nothing is asked again. REQUEST_TIMED_OUT where the outcome is not known: look at the
        partition, and ask again. Raises the session's errors: then nothing more was begun."""
        result, left = Elections(), list(partitions)
        for _ in range(_ATTEMPTS):
            guard = self._guards.guard()
            changes = self._decided(kind, left, tails or {}, result)
            left = []
            for outcome in self._writer.write(changes, [guard], self._now_ms()).outcomes:
                key = outcome.change.partition
                if outcome.fate is not Fate.DONE:
                    result.failed[key] = _not_written(key, outcome.fate, outcome.why)
                if outcome.fate is Fate.REFUSED:
                    left.append(key)
            if not left:
                break
        return result

    def _decided(
        self,
        kind: Kind,
        partitions: Iterable[TopicPartition],
        tails: Mapping[TopicPartition, Tails],
        result: Elections,
    ) -> list[ChangeState]:
        keys = list(partitions)
        picture = self._picture({topic for topic, _ in keys})
        changes: list[ChangeState] = []
        for key in keys:
            result.failed.pop(key, None)
            view = picture.partitions.get(key)
            if view is None:
                result.failed[key] = _error("UNKNOWN_TOPIC_OR_PARTITION", key, "it has no state")
                continue
            asked = _must_tell(kind, view, picture)
            if asked and key not in tails:
                result.ask[key], result.views[key] = asked, view
                continue
            outcome = asked_for(view, picture, kind, tails.get(key, {}))
            if isinstance(outcome, Elected):
                changes.append(ChangeState(key, view.state.version, outcome.state, outcome.why))
            else:
                result.failed[key] = _error(outcome.error, key, outcome.why)
        return changes

    def _picture(self, topics: set[str]) -> Picture:
        brokers, suspects = self._reader.brokers(lambda _: True)
        controller = self._election.current()
        epoch = controller.epoch if controller is not None else 0
        return Picture(brokers, self._reader.views(sorted(topics)), epoch, suspects)


def _must_tell(kind: Kind, view: PartitionView, picture: Picture) -> tuple[int, ...]:
    """The brokers whose tails decide: all that are up, where none surely has everything."""
    if kind is not Kind.UNCLEAN or in_sync.leads(view, picture):
        return ()
    if in_sync.candidates(view, picture):
        return ()
    up = tuple(one for one in view.assignment.replicas if picture.is_up(one))
    return up if len(up) > 1 else ()


def _error(name: str, key: TopicPartition, why: str) -> KafkaError:
    return KafkaError(CODES[name], f"{key[0]}-{key[1]}: {why}")


def _not_written(key: TopicPartition, fate: Fate, why: str) -> KafkaError:
    unknown = "it may still be elected: " if fate is Fate.UNKNOWN else ""
    return _error("REQUEST_TIMED_OUT", key, f"{unknown}{why}")
