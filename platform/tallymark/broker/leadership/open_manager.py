"""Opens all logs of a broker's data folders at its start."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence

from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.settings.topic_configs import log_config
from tallymark.log import Files, LogManager

log = logging.getLogger(__name__)


def open_manager(
    files: Files,
    folders: Sequence[str],
    settings: BrokerSettings,
    now_ms: int,
    cluster_id: str,
    seconds: Callable[[], float],
) -> LogManager:
    """Lock the folders, open and recover the logs. Blocks: run it in a thread. ``seconds`` is a
    monotonic clock."""
    began = seconds()
    manager = LogManager.open(
        files,
        folders,
        log_config(settings, {}),
        broker_id=settings.node_id,
        now_ms=now_ms,
        cluster_id=cluster_id,
    )
    for key in manager:
        opened = manager.get(*key)
        found = opened.recovered if opened is not None else None
        if found is not None:
            log.log(
                logging.WARNING if found.cut else logging.INFO,
                "recovered %s: truncated %d bytes, verified %d bytes, ends at offset %d",
                key,
                found.cut,
                found.verified,
                found.end_offset,
            )
    log.info(
        "logs opened count=%d seconds=%.2f folders=%s",
        len(manager),
        seconds() - began,
        os.pathsep.join(folders),
    )
    return manager
