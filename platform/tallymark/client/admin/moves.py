"""Replicas that move to other brokers (KIP-455), and leaders that are elected (KIP-460)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from tallymark.client.admin.base import AdminBase
from tallymark.client.admin.results import Outcomes, Results, refusal
from tallymark.client.admin.routes import from_controller
from tallymark.errors import CODES, KafkaError
from tallymark.protocol import messages
from tallymark.protocol.topic_partition import TopicPartition

_PREFERRED: Final = 0
_UNCLEAN: Final = 1
_NOT_NEEDED: Final = CODES["ELECTION_NOT_NEEDED"]


@dataclass(frozen=True, slots=True)
class Move:
    """A partition that moves: all its replicas now, those that come, those that will go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas when the move is complete, the preferred leader first."""
        return tuple(one for one in self.replicas if one not in self.removing)


class MovesAdmin(AdminBase):
    """The methods of Admin for replicas that move."""

    def move_partitions(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Results[TopicPartition, None]:
        """Begin to move partitions to these brokers, the preferred leader first; None cancels a
        move. The moves are complete later: see :meth:`moving_partitions`.

        Errors: NO_REASSIGNMENT_IN_PROGRESS, INVALID_REPLICA_ASSIGNMENT,
        UNKNOWN_TOPIC_OR_PARTITION.
        """

        async def attempt(keys: list[TopicPartition]) -> Outcomes[TopicPartition, None]:
            request = messages.AlterPartitionReassignmentsRequest(
                timeout_ms=int(self._timeout * 1000),
                topics=tuple(
                    messages.AlterPartitionReassignmentsRequestTopic(
                        name=topic,
                        partitions=tuple(
                            messages.AlterPartitionReassignmentsRequestPartition(
                                partition_index=key[1], replicas=targets[key]
                            )
                            for key in partitions
                        ),
                    )
                    for topic, partitions in groupby(sorted(keys), key=lambda key: key[0])
                ),
            )
            return await from_controller(self._cluster, request, keys, _moved)

        return self._settle(targets, attempt, "moving partitions")

    def moving_partitions(self) -> dict[TopicPartition, Move]:
        """The partitions that move now."""

        async def ask() -> dict[TopicPartition, Move]:
            request = messages.ListPartitionReassignmentsRequest(
                timeout_ms=int(self._timeout * 1000)
            )
            answer = await self._cluster.ask_controller(request)
            if answer.error_code:
                raise refusal(answer.error_code, "listing moves", answer.error_message)
            return {
                (topic.name, one.partition_index): Move(
                    tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas)
                )
                for topic in answer.topics
                for one in topic.partitions
            }

        return self._run(ask(), "listing moves")

    def elect_leaders(
        self, partitions: Iterable[TopicPartition], *, unclean: bool = False
    ) -> Results[TopicPartition, bool]:
        """Make the preferred replica of each partition its leader: True where it is a new one,
        False where it led already. With ``unclean`` any replica may lead a partition that has no
        leader: records that were acknowledged may be lost.

        Errors: PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE,
        UNKNOWN_TOPIC_OR_PARTITION.
        """

        async def attempt(keys: list[TopicPartition]) -> Outcomes[TopicPartition, bool]:
            request = messages.ElectLeadersRequest(
                election_type=_UNCLEAN if unclean else _PREFERRED,
                timeout_ms=int(self._timeout * 1000),
                topic_partitions=tuple(
                    messages.ElectLeadersRequestTopic(
                        topic=topic, partitions=tuple(key[1] for key in found)
                    )
                    for topic, found in groupby(sorted(keys), key=lambda key: key[0])
                ),
            )
            return await from_controller(self._cluster, request, keys, _elected)

        return self._settle(partitions, attempt, "electing leaders")


def _moved(
    answer: messages.AlterPartitionReassignmentsResponse,
) -> Outcomes[TopicPartition, None]:
    if answer.error_code:
        raise refusal(answer.error_code, "moving partitions", answer.error_message)
    return {
        (topic.name, one.partition_index): _error(
            topic.name, one.partition_index, one.error_code, one.error_message
        )
        for topic in answer.responses
        for one in topic.partitions
    }


def _elected(answer: messages.ElectLeadersResponse) -> Outcomes[TopicPartition, bool]:
    if answer.error_code:
        raise KafkaError(answer.error_code, "electing leaders")
    found: Outcomes[TopicPartition, bool] = {}
    for topic in answer.replica_election_results:
        for one in topic.partition_result:
            error = _error(topic.topic, one.partition_id, one.error_code, one.error_message)
            needed = one.error_code != _NOT_NEEDED
            found[topic.topic, one.partition_id] = error if error and needed else needed
    return found


def _error(topic: str, partition: int, code: int, message: str | None) -> KafkaError | None:
    return refusal(code, f"{topic}-{partition}", message) if code else None
