"""Producer, simple consumer, consumer connector and admin.

Each object runs its asyncio core in one background thread (:mod:`.io_thread`) behind a synchronous
face; :mod:`.async_producer` and :mod:`.async_consumer` are faces for coroutines over the same
cores. Reading order: :mod:`.metadata` and :mod:`.cluster` (who leads what, connections to them);
for publishing :mod:`.producer` → :mod:`.accumulator` → :mod:`.sender` → :mod:`.pipeline` →
:mod:`.settlement`; for reading :mod:`.simple_consumer` → :mod:`.fetching` → :mod:`.truncation`;
:mod:`.stamps` and :mod:`.interceptors` are where the audit begins, :mod:`.interceptors_queue` is
what else may listen.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tallymark.client.admin import Admin
    from tallymark.client.admin_acls import AclEntry, AclQuery
    from tallymark.client.admin_configs import ConfigResource, ListChange
    from tallymark.client.admin_reset import OffsetTarget
    from tallymark.client.admin_results import Results
    from tallymark.client.admin_users import NewPassword
    from tallymark.client.async_consumer import AsyncConsumer
    from tallymark.client.async_producer import AsyncProducer
    from tallymark.client.batch_delivery import BatchDelivery, BatchMetadata
    from tallymark.client.connector import ConsumerConnector
    from tallymark.client.delivery import Delivery, RecordMetadata
    from tallymark.client.fetched import Fetched, FetchSpec
    from tallymark.client.interceptors_queue import (
        OutgoingRecord,
        QueuedBatch,
        QueueEvent,
        QueueInterceptor,
    )
    from tallymark.client.message_batch import MessageBatch
    from tallymark.client.metadata import TopicInfo
    from tallymark.client.producer import Producer
    from tallymark.client.security_deployment import connection_settings
    from tallymark.client.simple_consumer import SimpleConsumer
    from tallymark.client.topic_admin import NewTopic

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

# Loaded at first use: who only produces does not wait for ZooKeeper's client to load.
_HOMES: Final = {
    "AclEntry": "admin_acls",
    "AclQuery": "admin_acls",
    "Admin": "admin",
    "AsyncConsumer": "async_consumer",
    "AsyncProducer": "async_producer",
    "BatchDelivery": "batch_delivery",
    "BatchMetadata": "batch_delivery",
    "ConfigResource": "admin_configs",
    "ConsumerConnector": "connector",
    "Delivery": "delivery",
    "FetchSpec": "fetched",
    "Fetched": "fetched",
    "MessageBatch": "message_batch",
    "ListChange": "admin_configs",
    "NewPassword": "admin_users",
    "NewTopic": "topic_admin",
    "OffsetTarget": "admin_reset",
    "OutgoingRecord": "interceptors_queue",
    "Producer": "producer",
    "QueueEvent": "interceptors_queue",
    "QueueInterceptor": "interceptors_queue",
    "QueuedBatch": "interceptors_queue",
    "RecordMetadata": "delivery",
    "Results": "admin_results",
    "SimpleConsumer": "simple_consumer",
    "TopicInfo": "metadata",
    "connection_settings": "security_deployment",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
