"""Elections that an operator asks for (ElectLeaders), by compare-and-set from any broker.

Nothing of them needs the controller: a change names the version of the state that it was decided
from, so of an operator's election and the controller's one is written, and the other one is decided
again. An unclean election needs to know where logs end; the caller asks for that in between::

    elect(kind, partitions) ─▶ done, failed, and brokers to ask ─▶ elect(..., tails) ─▶ done, failed
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tallymark.coordination.replicas.requested import Failed, RequestedChanges, refusal_of
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.errors import KafkaError
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


@dataclass(slots=True)
class Elections:
    """``failed`` were not held, with the errors of KIP-460; ``done`` were. ``ask`` are brokers that
    must tell first where their logs end, ``views`` the partitions that this is about."""

    done: dict[TopicPartition, Elected] = field(default_factory=dict[TopicPartition, Elected])
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
        self._changes = RequestedChanges(zookeeper, now_ms, defaults)

    def elect(
        self,
        kind: Kind,
        partitions: Iterable[TopicPartition],
        tails: Mapping[TopicPartition, Tails] | None = None,
    ) -> Elections:
        """Elect a leader of each. ``tails`` are answers to an earlier ``ask``: of the partitions in
        it nothing is asked again. REQUEST_TIMED_OUT as :meth:`.RequestedChanges.write`, which also
        says what is raised."""
        result = Elections()

        def decide(
            picture: Picture, keys: Sequence[TopicPartition], failed: Failed
        ) -> list[ChangeState]:
            return _decided(picture, keys, failed, kind, tails or {}, result)

        result.failed |= self._changes.write(partitions, decide)
        for key in result.failed:
            result.done.pop(key, None)
        return result


def _decided(
    picture: Picture,
    keys: Sequence[TopicPartition],
    failed: Failed,
    kind: Kind,
    tails: Mapping[TopicPartition, Tails],
    result: Elections,
) -> list[ChangeState]:
    changes: list[ChangeState] = []
    for key in keys:
        view = picture.partitions.get(key)
        if view is None:
            failed[key] = refusal_of("UNKNOWN_TOPIC_OR_PARTITION", key, "it has no state")
            continue
        asked = _must_tell(kind, view, picture)
        if asked and key not in tails:
            result.ask[key], result.views[key] = asked, view
            continue
        outcome = asked_for(view, picture, kind, tails.get(key, {}))
        if isinstance(outcome, Elected):
            changes.append(ChangeState(key, view.state.version, outcome.state, outcome.why))
            result.done[key] = outcome
        else:
            failed[key] = refusal_of(outcome.error, key, outcome.why)
    return changes


def _must_tell(kind: Kind, view: PartitionView, picture: Picture) -> tuple[int, ...]:
    """The brokers whose tails decide: all that are up, where none surely has everything."""
    if kind is not Kind.UNCLEAN or in_sync.leads(view, picture):
        return ()
    if in_sync.candidates(view, picture):
        return ()
    up = tuple(one for one in view.assignment.replicas if picture.is_up(one))
    return up if len(up) > 1 else ()
