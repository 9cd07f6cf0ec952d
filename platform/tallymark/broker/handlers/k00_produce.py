"""k00 Produce: append one record batch to each partition named.

Advertised 0-11, served 3-11.

* v0 to v2 carry the old message formats; they are answered with UNSUPPORTED_VERSION in every
  partition. They are advertised since librdkafka before 2.11.1 stops compressing for a broker whose
  lowest version is above 0 (KAFKA-18659)
* v3 batches of format v2 (KIP-98), exactly one a partition
* v7 zstd; below it a zstd batch is UNSUPPORTED_COMPRESSION_TYPE (KIP-110)
* v8 the error in words, and the records that are to blame (KIP-467): those without a key in a
  compacted topic, and those out of the limits on timestamps
* v9 flexible
* v10 the new leader beside NOT_LEADER_OR_FOLLOWER (KIP-951)
* v11 no change on the wire (KIP-890)

Kept: WRITE on the topic is asked for, idempotent or not (KIP-679). A batch sent again by an
idempotent producer is answered with its first offset. acks=1 and acks=-1 are the same with one
replica: answered when the batch is in the page cache, so a killed process loses nothing of it (a
machine's power failure loses what was not flushed); with ``flush.before.expose`` acks=-1 waits for
the flush. A batch that takes a while to be checked or compressed anew (``compression.type``) is
made ready in a thread, and those for its partition that come after it wait. acks=0 has no answer;
an error then closes the connection. A partition named twice is appended once.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from tallymark.broker.requests.decode import decode_request
from tallymark.broker.requests.produce import Outcomes, Producing, Refused
from tallymark.broker.requests.registry import register_raw
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.net.server.handler import Answer, Connection
from tallymark.protocol.frames import RequestHeader, encode_response
from tallymark.protocol.messages import ProduceRequest
from tallymark.protocol.wire.produce import (
    Batches,
    PlainProduce,
    read_produce,
    write_produced,
)

_FIRST_SERVED: Final = 3


def handle(
    state: BrokerState, body: memoryview, header: RequestHeader, connection: Connection
) -> Answer | Awaitable[Answer]:
    """Append in the order of the request; every partition fails or succeeds by itself."""
    version = header.api_version
    request = read_produce(body, version) if version >= _FIRST_SERVED else _read_old(body, version)
    producing = Producing(state, connection, version, request.acks, _refusal(request, version))
    outcomes = producing.append(request.topics)
    if producing.unready or producing.unexposed:
        return _later(producing, outcomes, header, request.timeout_ms)
    return _answer(producing, outcomes, header)


async def _later(
    producing: Producing, outcomes: Outcomes, header: RequestHeader, timeout_ms: int
) -> Answer:
    if producing.unready:
        await producing.ready(outcomes)
    if producing.unexposed:
        await producing.expose(timeout_ms, outcomes)
    return _answer(producing, outcomes, header)


def _answer(producing: Producing, outcomes: Outcomes, header: RequestHeader) -> Answer:
    if producing.acks == 0:
        if producing.failed:
            producing.connection.finish()
        return None
    if producing.failed:
        response = producing.response(outcomes)
        return encode_response(response, header.api_version, header.correlation_id)
    appended = [
        (name, [each for each in partitions if not isinstance(each, Refused)])
        for name, partitions in outcomes
    ]
    return write_produced(header.api_version, header.correlation_id, appended)


def _refusal(request: PlainProduce, version: int) -> KafkaError | None:
    """Why the request as a whole is refused."""
    if version < _FIRST_SERVED:
        return KafkaError(CODES["UNSUPPORTED_VERSION"], f"Produce version {version}")
    if request.acks not in (-1, 0, 1):
        return KafkaError(CODES["INVALID_REQUIRED_ACKS"], f"acks={request.acks}")
    if request.transactional_id is not None:
        return KafkaError(
            CODES["TRANSACTIONAL_ID_AUTHORIZATION_FAILED"], "transactions are not served"
        )
    return None


def _read_old(body: memoryview, version: int) -> PlainProduce:
    request = decode_request(ProduceRequest, version, body)
    topics: list[Batches] = [
        (topic.name, [(part.index, None) for part in topic.partition_data])
        for topic in request.topic_data
    ]
    return PlainProduce(None, request.acks, request.timeout_ms, topics)


register_raw(ProduceRequest, handle)
