"""How long topics keep their messages. The clusters are asked from time to time, in a thread."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from typing import Final, Protocol

from tallymark.client import Admin, Results
from tallymark.client.admin.configs import ConfigEntry, ConfigResource
from tallymark.client.core.security.deployment import connection_settings
from tallymark.deployment import Deployment
from tallymark.errors import TallymarkError
from tallymark_audit.collector.background_call import BackgroundCall

log: Final = logging.getLogger(__name__)
ASK_MS: Final = 600_000
AT_ONCE: Final = 500
"""Topics in one request."""
RETENTION: Final = "retention.ms"
POLICY: Final = "cleanup.policy"
TopicOf = tuple[str, str]
"""Cluster and topic."""


class DescribesConfigs(Protocol):
    """The part of an Admin that is used."""

    def describe_configs(
        self, resources: Collection[ConfigResource], *, names: Collection[str]
    ) -> Results[ConfigResource, dict[str, ConfigEntry]]: ...

    def close(self) -> None: ...


AdminOf = Callable[[str], DescribesConfigs]


class RetentionTimes:
    """``retention.ms`` of topics, without those that delete nothing; read again every
    :data:`ASK_MS`. For a cluster that does not answer the last known values hold."""

    def __init__(self, admin_of: AdminOf) -> None:
        self._admin_of = admin_of
        self._aside: BackgroundCall[dict[TopicOf, int]] = BackgroundCall("retention times")
        self._known: dict[TopicOf, int] = {}
        self._asked_at: int | None = None

    def known(self, topics: Collection[TopicOf], now: int) -> Mapping[TopicOf, int]:
        """What is known; new topics are asked about at once, in the background."""
        outcome = self._aside.take()
        if outcome is not None and (error := outcome.exception()) is not None:
            log.warning("retention times cannot be learned now: %s", error)
        elif outcome is not None:
            self._known = outcome.result()
        due = self._asked_at is None or now - self._asked_at >= ASK_MS
        if topics and due and self._aside.idle:
            self._asked_at = now
            wanted, before = sorted(topics), dict(self._known)
            self._aside.start(lambda: ask(self._admin_of, wanted, before))
        return self._known


def ask(
    admin_of: AdminOf, topics: Collection[TopicOf], before: Mapping[TopicOf, int]
) -> dict[TopicOf, int]:
    """``retention.ms`` of the topics; of clusters that cannot be asked, as ``before``."""
    found: dict[TopicOf, int] = {}
    for cluster in sorted({cluster for cluster, _ in topics}):
        names = [topic for where, topic in topics if where == cluster]
        try:
            with closing(admin_of(cluster)) as admin:
                for start in range(0, len(names), AT_ONCE):
                    found |= _some(admin, cluster, names[start : start + AT_ONCE])
        except TallymarkError as error:
            log.info("%s does not tell how long it keeps messages: %s", cluster, error)
            found |= {place: kept for place, kept in before.items() if place[0] == cluster}
    return found


def admin_of(deployment: Deployment) -> AdminOf:
    """Admins of the deployment's clusters, as the collectors connect."""

    def opened(cluster: str) -> DescribesConfigs:
        settings = connection_settings(deployment.cluster(cluster))
        return Admin(**settings, client_id="tallymark-audit-alerts", request_timeout_ms=5000)

    return opened


def _some(admin: DescribesConfigs, cluster: str, names: list[str]) -> dict[TopicOf, int]:
    answer = admin.describe_configs(
        [ConfigResource("topic", name) for name in names], names=[RETENTION, POLICY]
    )
    found: dict[TopicOf, int] = {}
    for resource, configs in answer.done.items():
        kept, policy = (_value(configs, name) for name in (RETENTION, POLICY))
        if "delete" in policy and kept.isdecimal():  # -1 keeps all
            found[cluster, resource.name] = int(kept)
    return found


def _value(configs: Mapping[str, ConfigEntry], name: str) -> str:
    entry = configs.get(name)
    return (entry.value or "") if entry is not None else ""
