"""Makes the target's topics: as many partitions as the source has, and the settings that decide
how long and in what form the data is kept."""

from __future__ import annotations

from typing import Final

from tallymark.client.admin import Admin
from tallymark.coordination import TopicConfigs, ZooKeeper
from tallymark.errors import CODES, KafkaError

KEPT: Final = frozenset(
    {"retention.ms", "retention.bytes", "cleanup.policy", "max.message.bytes", "segment.bytes"}
)


class TopicCopier:
    """Remembers which topics the target has. A topic that is there already stays as it is."""

    def __init__(self, zookeeper: ZooKeeper, source: Admin, target: Admin) -> None:
        self._there: set[str] = set()
        self._compacted: dict[str, bool] = {}
        self._configs = TopicConfigs(zookeeper)
        self._source = source
        self._target = target

    def ensure(self, topic: str) -> None:
        """See that the target has the topic. KafkaError UNKNOWN_TOPIC_OR_PARTITION: neither
        cluster has it (any more); other errors: it cannot be made, now or ever."""
        if topic in self._there:
            return
        if topic not in self._target.topics():
            here = self._source.topics().get(topic)
            if here is None:
                raise KafkaError(CODES["UNKNOWN_TOPIC_OR_PARTITION"], topic)
            wanted = self._configs.get(topic)
            self._target.create_topic(
                topic,
                partitions=here.partition_count,
                configs={name: value for name, value in wanted.items() if name in KEPT},
                if_not_exists=True,
            )
        self._there.add(topic)

    def is_compacted(self, topic: str) -> bool:
        """Whether the source keeps only the latest record of each key, as far as the topic's own
        settings tell. Errors: ZooKeeper does not answer."""
        known = self._compacted.get(topic)
        if known is None:
            policy = self._configs.get(topic).get("cleanup.policy", "")
            known = self._compacted[topic] = "compact" in policy
        return known
