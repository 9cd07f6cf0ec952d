"""A producer of many messages, as fast as they go: ``python -m
tallymark_audit.proof.drill.applications.bulk CONFIG``.

CONFIG is JSON: ``bootstrap``, ``topic``, ``server``, ``count``, ``size`` (bytes of a value) and
``book`` (file), into which it writes how many were acknowledged once it has ended.
"""

from __future__ import annotations

import json
import logging
import sys
from collections import deque
from pathlib import Path
from typing import Any, Final

from tallymark import Producer
from tallymark.client.producing.batch_delivery import BatchDelivery
from tallymark.processes.process import configure_logging, die_with_parent

log: Final = logging.getLogger("drill.bulk")
_AT_ONCE: Final = 5_000
_UNDER_WAY: Final = 20
_PATIENCE_SECONDS: Final = 300.0


def _produce(config: dict[str, Any]) -> int:
    """How many were acknowledged; whatever kept one out of the log is raised."""
    topic, left = config["topic"], config["count"]
    values = [bytes(config["size"])] * _AT_ONCE
    under_way: deque[BatchDelivery] = deque()
    acknowledged = 0
    with Producer(
        bootstrap_servers=config["bootstrap"],
        client_id=f"drill-{config['server']}",
        server=config["server"],
        delivery_timeout_ms=_PATIENCE_SECONDS * 1000,
    ) as producer:
        log.info("ready")
        while left or under_way:
            if left and len(under_way) < _UNDER_WAY:
                now = min(left, _AT_ONCE)
                under_way.append(producer.send_many(topic, values[:now]))
                left -= now
            else:
                oldest = under_way.popleft()
                oldest.result(_PATIENCE_SECONDS)
                acknowledged += len(oldest)
    return acknowledged


if __name__ == "__main__":
    configure_logging()
    die_with_parent()
    asked: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    Path(asked["book"]).write_text(str(_produce(asked)), encoding="utf-8")
