"""Producer, simple consumer, consumer connector and admin.

Each object runs its asyncio core in one background thread (:mod:`.io_thread`) behind a synchronous
face. Reading order: :mod:`.metadata` and :mod:`.cluster` (who leads what, connections to them);
for publishing :mod:`.producer` → :mod:`.accumulator` → :mod:`.sender` → :mod:`.pipeline` →
:mod:`.settlement`; for reading :mod:`.simple_consumer` → :mod:`.fetching` → :mod:`.truncation`;
:mod:`.stamps` and :mod:`.interceptors` are where the audit begins.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tallymark.client.admin import Admin
    from tallymark.client.connector import ConsumerConnector
    from tallymark.client.delivery import Delivery, RecordMetadata
    from tallymark.client.fetched import Fetched, FetchSpec
    from tallymark.client.metadata import TopicInfo
    from tallymark.client.producer import Producer
    from tallymark.client.simple_consumer import SimpleConsumer

__all__ = [
    "Admin",
    "ConsumerConnector",
    "Delivery",
    "FetchSpec",
    "Fetched",
    "Producer",
    "RecordMetadata",
    "SimpleConsumer",
    "TopicInfo",
]

# Loaded at first use: who only produces does not wait for ZooKeeper's client to load.
_HOMES: Final = {
    "Admin": "admin",
    "ConsumerConnector": "connector",
    "Delivery": "delivery",
    "FetchSpec": "fetched",
    "Fetched": "fetched",
    "Producer": "producer",
    "RecordMetadata": "delivery",
    "SimpleConsumer": "simple_consumer",
    "TopicInfo": "metadata",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
