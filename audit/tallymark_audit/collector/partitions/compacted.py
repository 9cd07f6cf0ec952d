"""Whether a topic is compacted: then messages that are not in its log need not be lost."""

from __future__ import annotations

from tallymark.client import Admin
from tallymark.client.admin.configs import ConfigResource
from tallymark.errors import KafkaError


def is_compacted(admin: Admin, topic: str) -> bool:
    """Whether the topic keeps only the latest record of each key; False for a topic that does not
    exist. TallymarkError: the cluster does not answer."""
    resource = ConfigResource("topic", topic)
    found = admin.describe_configs([resource])
    error = found.errors.get(resource)
    if isinstance(error, KafkaError) and error.name == "UNKNOWN_TOPIC_OR_PARTITION":
        return False
    policy = found.check()[resource].get("cleanup.policy")
    return policy is not None and "compact" in str(policy.value)
