"""A consumer's settings as the public class makes them."""

from __future__ import annotations

from typing import Any

from tallymark.client.consuming.settings import ConsumerSettings


def consumer_settings(**changes: Any) -> ConsumerSettings:
    """Settings with the defaults of the public class."""
    fields: dict[str, Any] = {
        "group": "g",
        "coordinator": None,
        "zookeeper_connect": None,
        "bootstrap_servers": "h:1",
        "client_id": "tallymark",
        "consumer_id": None,
        "enable_auto_commit": True,
        "auto_commit_interval_ms": 5000,
        "auto_offset_reset": "smallest",
        "out_of_range": None,
        "delivery": "at_least_once",
        "isolation": "read_uncommitted",
        "partition_assignment_strategy": None,
        "group_instance_id": None,
        "session_timeout_ms": None,
        "heartbeat_interval_ms": None,
        "max_poll_interval_ms": None,
        "metadata_max_age_ms": 10_000,
        "connect_timeout_ms": 15_000,
        "request_timeout_ms": 10_000,
        "fetch_max_bytes": 1 << 20,
        "fetch_max_wait_ms": 500,
        "retry_backoff_ms": 100,
        "queue_bytes": 1 << 22,
        "start_timeout_ms": 10_000,
    }
    return ConsumerSettings(**(fields | changes))
