"""Producer, simple consumer, consumer connector and admin.

Each object runs its asyncio core in one background thread (:mod:`tallymark.client.core.io_thread`)
behind a synchronous face; :mod:`.aio.producer` and :mod:`.aio.consumer` are faces for coroutines
over the same cores. Reading order: :mod:`tallymark.client.core.metadata` and
:mod:`tallymark.client.core.cluster` (leaders of partitions, connections to them); for publishing
:mod:`.producing.producer` → :mod:`tallymark.client.producing.batches.accumulator` →
:mod:`tallymark.client.producing.sending.sender` →
:mod:`tallymark.client.producing.batches.pipeline` →
:mod:`tallymark.client.producing.sending.batch_completion`; for reading
:mod:`.reading.simple_consumer` → :mod:`.reading.fetching` → :mod:`.reading.truncation`;
:mod:`.producing.stamps` and :mod:`tallymark.client.producing.interceptors.producer_interceptor` are
where the audit begins, :mod:`tallymark.client.producing.interceptors.queue_interceptor` is what
else may listen.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tallymark.client.admin.acls import AclEntry, AclQuery
    from tallymark.client.admin.admin import Admin
    from tallymark.client.admin.configs import ConfigResource, ListChange
    from tallymark.client.admin.reset import OffsetTarget
    from tallymark.client.admin.results import Results
    from tallymark.client.admin.topic_admin import NewTopic
    from tallymark.client.admin.users import NewPassword
    from tallymark.client.aio.consumer import AsyncConsumer
    from tallymark.client.aio.producer import AsyncProducer
    from tallymark.client.connector.connector import ConsumerConnector
    from tallymark.client.core.group_metadata import GroupMetadata
    from tallymark.client.core.metadata import TopicInfo
    from tallymark.client.core.security.deployment import connection_settings
    from tallymark.client.producing.batch_delivery import BatchDelivery, BatchMetadata
    from tallymark.client.producing.delivery import Delivery, RecordMetadata
    from tallymark.client.producing.interceptors.queue_interceptor import (
        OutgoingRecord,
        QueuedBatch,
        QueueEvent,
        QueueInterceptor,
    )
    from tallymark.client.producing.producer import Producer
    from tallymark.client.reading.fetched import Fetched, FetchSpec
    from tallymark.client.reading.message_batch import MessageBatch
    from tallymark.client.reading.simple_consumer import SimpleConsumer

__all__ = [
    "AclEntry",
    "AclQuery",
    "Admin",
    "AsyncConsumer",
    "AsyncProducer",
    "BatchDelivery",
    "BatchMetadata",
    "ConfigResource",
    "ConsumerConnector",
    "Delivery",
    "FetchSpec",
    "Fetched",
    "GroupMetadata",
    "ListChange",
    "MessageBatch",
    "NewPassword",
    "NewTopic",
    "OffsetTarget",
    "OutgoingRecord",
    "Producer",
    "QueueEvent",
    "QueueInterceptor",
    "QueuedBatch",
    "RecordMetadata",
    "Results",
    "SimpleConsumer",
    "TopicInfo",
    "connection_settings",
]

# Loaded at first use: a program that only produces does not load ZooKeeper's client.
_HOMES: Final = {
    "AclEntry": "admin.acls",
    "AclQuery": "admin.acls",
    "Admin": "admin.admin",
    "AsyncConsumer": "aio.consumer",
    "AsyncProducer": "aio.producer",
    "BatchDelivery": "producing.batch_delivery",
    "BatchMetadata": "producing.batch_delivery",
    "ConfigResource": "admin.configs",
    "ConsumerConnector": "connector.connector",
    "Delivery": "producing.delivery",
    "FetchSpec": "reading.fetched",
    "Fetched": "reading.fetched",
    "GroupMetadata": "core.group_metadata",
    "MessageBatch": "reading.message_batch",
    "ListChange": "admin.configs",
    "NewPassword": "admin.users",
    "NewTopic": "admin.topic_admin",
    "OffsetTarget": "admin.reset",
    "OutgoingRecord": "producing.interceptors.queue_interceptor",
    "Producer": "producing.producer",
    "QueueEvent": "producing.interceptors.queue_interceptor",
    "QueueInterceptor": "producing.interceptors.queue_interceptor",
    "QueuedBatch": "producing.interceptors.queue_interceptor",
    "RecordMetadata": "producing.delivery",
    "Results": "admin.results",
    "SimpleConsumer": "reading.simple_consumer",
    "TopicInfo": "core.metadata",
    "connection_settings": "core.security.deployment",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
