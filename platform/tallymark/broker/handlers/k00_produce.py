"""k00 Produce: append one record batch to each partition named.

Advertised 0-11, served 3-11.

* v0 to v2 carry the old message formats; they are answered with UNSUPPORTED_VERSION in every
  partition. They are advertised since librdkafka before 2.11.1 stops compressing for a broker whose
  lowest version is above 0 (KAFKA-18659)
* v3 batches of format v2 (KIP-98), exactly one a partition
* v7 zstd; below it a zstd batch is UNSUPPORTED_COMPRESSION_TYPE (KIP-110)
* v8 the error in words (KIP-467); single records are never named, the broker does not open batches
* v9 flexible
* v10 the new leader beside NOT_LEADER_OR_FOLLOWER (KIP-951)
* v11 no change on the wire (KIP-890)

Kept: a batch sent again by an idempotent producer is answered with its first offset. acks=1 and
acks=-1 are the same with one replica: answered when the batch is in the page cache, so a killed
process loses nothing of it (a machine's power failure loses what was not flushed). acks=0 has no
answer; an error then closes the connection. A partition named twice is appended once.
"""

from __future__ import annotations

import logging
from typing import Final

from tallymark.broker.batches import uses_zstd
from tallymark.broker.handlers import Call, register
from tallymark.broker.leaders import leader_hint
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.groups.placement import OFFSETS_TOPIC
from tallymark.protocol.messages import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceResponse,
    ProduceResponseLeader,
    ProduceResponseNode,
    ProduceResponsePartition,
    ProduceResponseTopic,
)

log = logging.getLogger(__name__)

_FIRST_SERVED: Final = 3
_FIRST_WITH_ZSTD: Final = 7


def handle(state: BrokerState, request: ProduceRequest, call: Call) -> ProduceResponse | None:
    """Append in the order of the request; every partition fails or succeeds by itself."""
    refused = _refusal(request, call)
    seen: set[tuple[str, int]] = set()
    now_ms = state.now_ms()
    nodes: dict[int, ProduceResponseNode] = {}
    topics = [
        ProduceResponseTopic(
            name=topic.name,
            partition_responses=[
                _append(state, topic.name, part, call, refused, seen, now_ms, nodes)
                for part in topic.partition_data
            ],
        )
        for topic in request.topic_data
    ]
    if request.acks == 0:
        if any(part.error_code for topic in topics for part in topic.partition_responses):
            call.connection.finish()
        return None
    return ProduceResponse(responses=topics, node_endpoints=list(nodes.values()))


def _refusal(request: ProduceRequest, call: Call) -> KafkaError | None:
    """Why the request as a whole is refused."""
    if call.version < _FIRST_SERVED:
        return KafkaError(CODES["UNSUPPORTED_VERSION"], f"Produce version {call.version}")
    if request.acks not in (-1, 0, 1):
        return KafkaError(CODES["INVALID_REQUIRED_ACKS"], f"acks={request.acks}")
    if request.transactional_id is not None:
        return KafkaError(
            CODES["TRANSACTIONAL_ID_AUTHORIZATION_FAILED"], "transactions are not served"
        )
    return None


def _append(
    state: BrokerState,
    topic: str,
    part: ProduceRequestPartition,
    call: Call,
    refused: KafkaError | None,
    seen: set[tuple[str, int]],
    now_ms: int,
    nodes: dict[int, ProduceResponseNode],
) -> ProduceResponsePartition:
    try:
        if refused is not None:
            raise refused
        if (topic, part.index) in seen:
            raise KafkaError(CODES["INVALID_REQUEST"], f"{topic}-{part.index} is named twice")
        seen.add((topic, part.index))
        if topic == OFFSETS_TOPIC:
            raise KafkaError(CODES["INVALID_TOPIC_EXCEPTION"], f"{topic} is the brokers' own")
        partition = state.partitions.find(topic, part.index)
        records = part.records or b""
        if call.version < _FIRST_WITH_ZSTD and uses_zstd(records):
            raise KafkaError(CODES["UNSUPPORTED_COMPRESSION_TYPE"], f"{partition}: zstd")
        appended = partition.append(records, now_ms)
    except KafkaError as error:
        return _failed(state, topic, part.index, error, nodes)
    return ProduceResponsePartition(
        index=part.index,
        base_offset=appended.first_offset,
        log_start_offset=partition.log.start_offset,
    )


def _failed(
    state: BrokerState,
    topic: str,
    index: int,
    error: KafkaError,
    nodes: dict[int, ProduceResponseNode],
) -> ProduceResponsePartition:
    log.log(
        logging.ERROR if error.fault == "broker" else logging.DEBUG,
        "produce refused partition=%s-%d: %s",
        topic,
        index,
        error,
    )
    hint = leader_hint(state.partitions, topic, index, error)
    if hint is None:
        return ProduceResponsePartition(
            index=index, error_code=error.code, base_offset=-1, error_message=str(error)
        )
    nodes[hint.node.node_id] = ProduceResponseNode(
        node_id=hint.node.node_id, host=hint.node.host, port=hint.node.port
    )
    return ProduceResponsePartition(
        index=index,
        error_code=error.code,
        base_offset=-1,
        error_message=str(error),
        current_leader=ProduceResponseLeader(hint.node.node_id, hint.epoch),
    )


register(ProduceRequest, handle)
