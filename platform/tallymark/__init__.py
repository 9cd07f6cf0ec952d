"""Tallymark: a Kafka-compatible log platform with the audit built in.

>>> from tallymark import Producer, SimpleConsumer

The rooms, from those that know nothing of the others upwards: ``protocol``, ``log``, ``net`` and
``coordination``; then ``client``, ``groups`` and ``broker``; then ``mirror`` and ``publishing``;
and ``cli`` on top of them. pyproject.toml has the layers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tallymark.client import (
        Admin,
        AsyncConsumer,
        AsyncProducer,
        ConsumerConnector,
        Delivery,
        Fetched,
        FetchSpec,
        GroupMetadata,
        Producer,
        RecordMetadata,
        SimpleConsumer,
        TopicInfo,
    )

__version__: Final = "0.1.0"
"""That of pyproject.toml, known without reading the package's metadata."""

__all__ = [
    "Admin",
    "AsyncConsumer",
    "AsyncProducer",
    "ConsumerConnector",
    "Delivery",
    "FetchSpec",
    "Fetched",
    "GroupMetadata",
    "Producer",
    "RecordMetadata",
    "SimpleConsumer",
    "TopicInfo",
    "__version__",
]


def __getattr__(name: str) -> Any:
    # Loaded at first use, so that `import tallymark` costs nothing.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tallymark import client

    return getattr(client, name)
