"""The response to a Produce request in which some partition failed; the others are written without
message objects (:mod:`tallymark.protocol.wire.produce`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from tallymark.broker.partitions.leader_hint import leader_hint
from tallymark.broker.partitions.table import Partitions
from tallymark.errors import KafkaError, RecordsRefusedError
from tallymark.protocol.messages import (
    ProduceResponse,
    ProduceResponseLeader,
    ProduceResponseNode,
    ProduceResponsePartition,
    ProduceResponseRecordError,
    ProduceResponseTopic,
)
from tallymark.protocol.wire.produce import Appended

_BY_THE_LOG: Final = frozenset(
    {
        "INVALID_RECORD",
        "INVALID_TIMESTAMP",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "DUPLICATE_SEQUENCE_NUMBER",
        "INVALID_PRODUCER_EPOCH",
        "UNKNOWN_PRODUCER_ID",
    }
)
"""Errors that are answered with the log's start offset."""


class Refused(NamedTuple):
    """A partition whose producer gets an error. Where that came after the append, the records may
    be committed all the same."""

    partition: int
    error: KafkaError


Outcome: TypeAlias = Appended | Refused


def produce_response(
    partitions: Partitions,
    listener: str,
    outcomes: Sequence[tuple[str, Sequence[Outcome]]],
    throttle_ms: int,
) -> ProduceResponse:
    """The answer with the errors, and with the addresses of other leaders on the client's
    ``listener``."""
    nodes: dict[int, ProduceResponseNode] = {}
    topics = [
        ProduceResponseTopic(
            name=name,
            partition_responses=[
                _refusal(partitions, listener, name, each, nodes)
                if isinstance(each, Refused)
                else ProduceResponsePartition(
                    index=each.partition,
                    base_offset=each.base_offset,
                    log_append_time_ms=each.log_append_time_ms,
                    log_start_offset=each.log_start_offset,
                )
                for each in done
            ],
        )
        for name, done in outcomes
    ]
    return ProduceResponse(
        responses=topics, throttle_time_ms=throttle_ms, node_endpoints=list(nodes.values())
    )


def _refusal(
    partitions: Partitions,
    listener: str,
    topic: str,
    refused: Refused,
    nodes: dict[int, ProduceResponseNode],
) -> ProduceResponsePartition:
    index, error = refused
    leader = ProduceResponseLeader()
    hint = leader_hint(partitions, topic, index, error, listener)
    if hint is not None:
        leader = ProduceResponseLeader(hint.node.node_id, hint.epoch)
        nodes[hint.node.node_id] = ProduceResponseNode(
            node_id=hint.node.node_id, host=hint.node.host, port=hint.node.port
        )
    return ProduceResponsePartition(
        index=index,
        error_code=error.code,
        base_offset=-1,
        log_start_offset=_log_start(partitions, topic, index, error),
        record_errors=_record_errors(error),
        error_message=error.context or error.text,  # the code says the rest
        current_leader=leader,
    )


def _log_start(partitions: Partitions, topic: str, index: int, error: KafkaError) -> int:
    """The log start offset if the log itself refused the batch for its content; -1 with other
    errors, as in Kafka."""
    partition = partitions.get(topic, index)
    if partition is None or error.name not in _BY_THE_LOG:
        return -1
    return partition.log.start_offset


def _record_errors(error: KafkaError) -> list[ProduceResponseRecordError]:
    """The records that caused the error (KIP-467)."""
    if not isinstance(error, RecordsRefusedError):
        return []
    return [ProduceResponseRecordError(at, why or None) for at, why in error.record_errors]
