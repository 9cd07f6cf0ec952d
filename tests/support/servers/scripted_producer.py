"""A producer that is quick to send and to try again, for tests against a scripted broker."""

from __future__ import annotations

from typing import Any

from tallymark.client.producing.producer import Producer
from tallymark.testing.scripted_broker import ScriptedBroker


def quick_producer(broker: ScriptedBroker, **settings: Any) -> Producer:
    """Its stamps name the server "srv"; ``settings`` come before these."""
    quick: dict[str, Any] = {
        "audit": False,
        "stamp": True,
        "linger_ms": 1,
        "retry_backoff_ms": 20,
        "request_timeout_ms": 2000,
        "server": "srv",
    }
    return Producer(bootstrap_servers=broker.address, **(quick | settings))
