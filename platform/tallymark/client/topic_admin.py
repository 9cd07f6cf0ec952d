"""Creating and deleting topics, for Admin and for whoever needs a topic of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from tallymark.client.cluster import RETRY_BACKOFF, Cluster
from tallymark.errors import (
    CODES,
    ConnectError,
    KafkaError,
    TallymarkError,
    TimedOutError,
    UserError,
)
from tallymark.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
)
from tallymark.protocol.schema import Message, Request

_EXISTS: Final = CODES["TOPIC_ALREADY_EXISTS"]
_GONE: Final = CODES["UNKNOWN_TOPIC_OR_PARTITION"]


async def create_topic(
    cluster: Cluster, name: str, partitions: int, configs: Mapping[str, str], timeout: float
) -> bool:
    """Create a topic and wait until brokers tell of it. False when it was there already.

    Raises KafkaError (INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS, INVALID_CONFIG ...),
    TimedOutError after ``timeout`` seconds.
    """
    request = CreateTopicsRequest(
        topics=(
            CreateTopicsRequestTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=-1,  # the broker's default (KIP-464)
                configs=tuple(
                    CreateTopicsRequestConfig(name=key, value=value)
                    for key, value in configs.items()
                ),
            ),
        ),
        timeout_ms=int(timeout * 1000),
    )
    code = await _settled(cluster, request, name, timeout, done=_EXISTS)
    await cluster.topic(name, timeout)
    return code == 0


async def delete_topic(cluster: Cluster, name: str, timeout: float) -> bool:
    """Delete a topic. False when there was none. Errors as for :func:`create_topic`."""
    request = DeleteTopicsRequest(
        topic_names=(name,),
        topics=(DeleteTopicsRequestTopic(name=name),),
        timeout_ms=int(timeout * 1000),
    )
    code = await _settled(cluster, request, name, timeout, done=_GONE)
    cluster.metadata.forget([name])
    return code == 0


async def _settled(
    cluster: Cluster, request: Request[Message], name: str, timeout: float, *, done: int
) -> int:
    """Ask the controller until it says yes (0), ``done``, or no (raised)."""
    deadline = asyncio.get_running_loop().time() + timeout
    while True:
        error: TallymarkError
        try:
            response = await cluster.ask_controller(request)
            code, said = _answer(response)
            if code in (0, done):
                return code
            error = KafkaError(code, f"topic {name}: {said}" if said else f"topic {name}")
            if not error.retriable:
                raise error
            if error.stale_metadata:
                await cluster.refresh([])
        except ConnectError as caught:
            error = caught
        except KafkaError as caught:
            if not caught.retriable:
                raise
            error = caught
        if asyncio.get_running_loop().time() + RETRY_BACKOFF > deadline:
            raise TimedOutError(f"topic {name}: not done within {timeout:g} s: {error}")
        await asyncio.sleep(RETRY_BACKOFF)


def _answer(response: Message) -> tuple[int, str | None]:
    """(error code, text) of the one topic that was asked about."""
    topics = getattr(response, "topics", None) or getattr(response, "responses", ())
    if not topics:
        raise UserError("the broker did not answer for the topic", "look at the broker's log")
    return topics[0].error_code, getattr(topics[0], "error_message", None)
