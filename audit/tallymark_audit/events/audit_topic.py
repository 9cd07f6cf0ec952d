"""The topic that reports go to: it is created if it does not exist, and creating it is retried."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Final

from tallymark.errors import CODES, KafkaError
from tallymark_audit.model.edges import AUDIT_TOPIC

log: Final = logging.getLogger(__name__)
RETENTION_MS: Final = 35 * 24 * 3600 * 1000
"""Retention of the topic: longer than reconciliations go back."""
RETRY_MS: Final = 5000

CreateTopic = Callable[[str, int, Mapping[str, str]], Future[bool]]
"""As a client's context has it: (name, partitions, configs)."""


def topic_configs(retention_ms: int = RETENTION_MS) -> dict[str, str]:
    """The topic's configuration. It is not compacted: the last event of a reporter need not have
    the highest revision of every cell."""
    return {"cleanup.policy": "delete", "retention.ms": str(retention_ms)}


def is_too_large(error: BaseException | None) -> bool:
    """Whether a report was refused for its size."""
    return isinstance(error, KafkaError) and error.code == CODES["MESSAGE_TOO_LARGE"]


class AuditTopic:
    """The topic of one cluster, for its writers. Does not wait."""

    def __init__(self, create_topic: CreateTopic, retention_ms: int = RETENTION_MS) -> None:
        self._create_topic = create_topic
        self._configs = topic_configs(retention_ms)
        self._there = False
        self._asked: Future[bool] | None = None
        self._retry_at = 0
        self._logged = False

    def ready(self, now_ms: int) -> bool:
        """Whether the topic is there; asks for it if it is not."""
        if self._there:
            return True
        if self._asked is None and now_ms >= self._retry_at:
            self._asked = self._create_topic(AUDIT_TOPIC, 1, self._configs)
        if self._asked is not None and self._asked.done():
            self._there = self._made(self._asked)
            self._asked, self._retry_at = None, now_ms + RETRY_MS
        return self._there

    def _made(self, asked: Future[bool]) -> bool:
        error = None if asked.cancelled() else asked.exception()
        exists = isinstance(error, KafkaError) and error.code == CODES["TOPIC_ALREADY_EXISTS"]
        if not asked.cancelled() and (error is None or exists):
            return True
        if not self._logged:
            self._logged = True
            why = "cancelled" if asked.cancelled() else error
            log.warning("the topic %s cannot be made, will try again: %s", AUDIT_TOPIC, why)
        return False
