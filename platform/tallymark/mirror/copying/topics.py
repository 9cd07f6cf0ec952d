"""Creates the target's topics, and maps each source topic to them: its name there, and which
partition goes where."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from tallymark.client.admin.admin import Admin
from tallymark.client.admin.topics import NewTopic, TopicDescription
from tallymark.client.core.partition_layout import Layout
from tallymark.deployment import Mirror
from tallymark.errors import CODES, KafkaError, TallymarkError
from tallymark.mirror.source.catalog import Catalog
from tallymark.mirror.source.source import SourceBatch
from tallymark.mirror.target.ready_batch import Origin
from tallymark.shell.counted import counted

KEPT: Final = frozenset(
    {"retention.ms", "retention.bytes", "cleanup.policy", "max.message.bytes", "segment.bytes"}
)
_NOT_THERE: Final = {
    CODES[name] for name in ("UNKNOWN_TOPIC_OR_PARTITION", "TOPIC_AUTHORIZATION_FAILED")
}
_log: Final = logging.getLogger("mirror")
CREATED_TOGETHER: Final = 100
"""Topics that are created with one request: a cluster takes about a second for so many."""
_LOOK_AHEAD: Final = 10_000
"""Batches in which topics to create are looked for."""
GROWTH_SECONDS: Final = 10.0
"""How often to ask again whether the target has the partition by now."""


class TargetTopics:
    """Remembers which topics the target has. A topic that is there already stays as it is."""

    def __init__(self, settings: Mirror, catalog: Catalog, source: Admin, target: Admin) -> None:
        self._settings = settings
        self._layouts: dict[str, tuple[Layout, int, float]] = {}
        """Topic -> (layout, partitions of the source then, when it was asked)."""
        self._prepared: set[str] = set()
        """Topics that were created with others, and whose layout was not read yet."""
        self._compacted: dict[str, bool] = {}
        self._catalog = catalog
        self._source = source
        self._target = target

    def is_new(self, topic: str) -> bool:
        """Whether :meth:`prepare` may have something to create for this topic."""
        return topic not in self._layouts and topic not in self._prepared

    def prepare(
        self, waiting: Iterable[SourceBatch], origin_of: Callable[[int], Origin], target_id: str
    ) -> None:
        """Create, with one request, what the target lacks of the topics that these batches are
        about to be copied to. ``origin_of`` finds by a producer id the clusters that a batch has
        been in: those that came from ``target_id`` are not copied. :meth:`layout` waits for each
        topic, and creates again, alone, what was refused here."""
        found: dict[str, None] = {}
        for piece in islice(waiting, _LOOK_AHEAD):
            header = piece.batch.header
            if header.is_control or target_id in origin_of(header.producer_id):
                continue
            if self.is_new(piece.topic):
                found[piece.topic] = None
                if len(found) == CREATED_TOGETHER:
                    break
        if len(found) > 1:
            self._create(found)
        self._prepared.update(found)

    def layout(self, topic: str, partition: int) -> Layout:
        """The topic's name and partitions in the target, which has the topic from now on.
        KafkaError UNKNOWN_TOPIC_OR_PARTITION: neither cluster has it (any more). Other errors: it
        cannot be created; a retriable one says not now."""
        known = self._layouts.get(topic)
        if known is None:
            layout, count = self._read_layout(topic, partition)
        else:
            layout, count, asked = known
            short = layout.keeps and partition >= layout.partitions
            grown = partition >= count
            if not short and not (grown and time.monotonic() - asked > GROWTH_SECONDS):
                return layout
            if short:
                self._grow(layout.name, partition + 1)
            layout, count = self._read_layout(topic, partition)
        self._layouts[topic] = layout, count, time.monotonic()
        self._prepared.discard(topic)
        return layout

    def forget(self, topic: str) -> None:
        """Ask again what the target has: it refuses what is sent there."""
        self._layouts.pop(topic, None)

    def is_compacted(self, topic: str) -> bool:
        """Whether the source keeps only the latest record of each key, as far as the topic's own
        settings say. Errors: ZooKeeper does not answer."""
        known = self._compacted.get(topic)
        if known is None:
            policy = self._catalog.configs(topic).get("cleanup.policy", "")
            known = self._compacted[topic] = "compact" in policy
        return known

    def _create(self, topics: Iterable[str]) -> None:
        names = {self._settings.target_topic(topic): topic for topic in topics}
        here = self._source.describe_topics(names.values()).done
        there = self._target.describe_topics(names)
        new = [
            NewTopic(name, len(here[topic].partitions), configs=self._configs(topic))
            for name, topic in names.items()
            if topic in here and _is_missing(there.errors.get(name))
        ]
        if new:
            what = counted(len(new), "topic")
            _log.info("creating %s at the target, %s among them", what, new[0].name)
            self._target.create_topics(new)

    def _grow(self, name: str, count: int) -> None:
        """The source's topic has more partitions than before, so the target's topic gets as many.
        If the target refuses that, the key decides the partition from now on."""
        error = self._target.create_partitions({name: count}).errors.get(name)
        if isinstance(error, KafkaError) and error.retriable:
            raise error
        if error is not None:
            _log.warning("%s cannot grow to %d partitions, its keys decide: %s", name, count, error)

    def _configs(self, topic: str) -> dict[str, str]:
        """What the target's topic has of the settings of the source's."""
        return {key: value for key, value in self._catalog.configs(topic).items() if key in KEPT}

    def _read_layout(self, topic: str, partition: int) -> tuple[Layout, int]:
        name = self._settings.target_topic(topic)
        here = _described(self._source, topic)
        there = _described(self._target, name)
        if there is None:
            if here is None:
                raise KafkaError(CODES["UNKNOWN_TOPIC_OR_PARTITION"], topic)
            configs = self._configs(topic)
            self._target.create_topic(name, len(here.partitions), configs, if_not_exists=True)
            there = _described(self._target, name)
            if there is None:  # not all brokers know of it yet
                raise KafkaError(CODES["LEADER_NOT_AVAILABLE"], name)
        count = max(partition + 1, len(here.partitions) if here else 0)
        keeps = self._settings.partitions == "keep" and len(there.partitions) >= count
        if not keeps and self._settings.partitions == "keep":
            text = "%s has %d partitions, its source %d: keys decide which is for which"
            _log.warning(text, name, len(there.partitions), count)
        return Layout(name, len(there.partitions), keeps), count


def _described(admin: Admin, topic: str) -> TopicDescription | None:
    """The topic, requested by its name: a list of all topics for each of thousands of new ones took
    longer than anything else. None: there is none that we may see."""
    found = admin.describe_topics([topic])
    if (error := found.errors.get(topic)) is None:
        return found.done.get(topic)
    if _is_missing(error):
        return None
    raise error


def _is_missing(error: TallymarkError | None) -> bool:
    return isinstance(error, KafkaError) and error.code in _NOT_THERE
