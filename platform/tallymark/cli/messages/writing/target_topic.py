"""The topic a command is about to write to, for commands whose records keep their partitions."""

from __future__ import annotations

from tallymark.client.admin.admin import Admin
from tallymark.client.core.metadata import TopicInfo
from tallymark.client.core.security.deployment import ConnectionSettings


def ensure_topic(client: ConnectionSettings, topic: str, partitions: int) -> TopicInfo:
    """The topic as it is; made with so many partitions when it is not there. A producer would have
    it made with as many as the cluster gives to every new topic."""
    with Admin(**client) as admin:
        admin.create_topic(topic, partitions)
        return admin.topics()[topic]
