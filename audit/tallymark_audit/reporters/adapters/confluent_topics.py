"""The topics that a confluent-kafka producer sends to, with a tracker for each partition."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from tallymark_audit.reporters.adapters.partition_tracker import PageMaker, PartitionTracker
from tallymark_audit.reporters.adapters.partitioners import PartitionChooser, Partitioner
from tallymark_audit.reporters.adapters.run import AdapterRun

log: Final = logging.getLogger(__name__)
FIRST_SECONDS: Final = 5.0
"""How long the first record of a topic waits until its partitions are known."""
_AGAIN_SECONDS: Final = 1.0
REFRESH_SECONDS: Final = 60.0
"""How often to look for new partitions of a topic."""


TopicTrackers: TypeAlias = PartitionChooser[PartitionTracker]


class AuditedTopics:
    """Finds out how many partitions topics have, and makes their trackers."""

    def __init__(
        self,
        inner: Any,
        run: AdapterRun,
        partitioner: Partitioner,
        audited: str,
        deliver: Callable[[PartitionTracker], PageMaker],
        only_errors: bool = False,
    ) -> None:
        """``audited``: a regular expression, the audited topics; internal ones never are. The last
        two: see :class:`.partition_tracker.PartitionTracker`."""
        self.known: dict[str, TopicTrackers] = {}
        self.cluster_id: str | None = None
        """As the brokers returned it."""
        self._inner = inner
        self._run = run
        self._partitioner = partitioner
        self._audited = re.compile(audited)
        self._deliver = deliver
        self._only_errors = only_errors
        self._left: set[str] = set()
        self._again: dict[str, float] = {}
        self._asking = threading.Lock()
        self._refreshed = time.monotonic()

    def learn(self, topic: str) -> TopicTrackers | None:
        """Look up a topic that is not known yet. None: its records go without a stamp, because it
        is not audited, or because its partitions cannot be found out now."""
        if self._run.over or topic in self._left:
            return None
        if topic.startswith("_") or not self._audited.fullmatch(topic):
            self._left.add(topic)
            return None
        with self._asking:
            if topic not in self.known and time.monotonic() >= self._again.get(topic, 0.0):
                self._ask(topic)
        return self.known.get(topic)

    def forget(self) -> None:
        """Forget all topics: each is looked up again, which finds that the run is over."""
        self.known.clear()

    def refresh(self) -> None:
        """Look for new partitions if REFRESH_SECONDS have passed."""
        if time.monotonic() - self._refreshed < REFRESH_SECONDS:
            return
        self._refreshed = time.monotonic()
        for topic, chooser in list(self.known.items()):
            count = self._count(topic, _AGAIN_SECONDS)
            if count > len(chooser.partitions):
                trackers = [
                    *chooser.partitions,
                    *self._trackers(topic, len(chooser.partitions), count),
                ]
                self.known[topic] = TopicTrackers(trackers, self._partitioner)

    def _ask(self, topic: str) -> None:
        patience = FIRST_SECONDS if topic not in self._again else _AGAIN_SECONDS / 5
        deadline = time.monotonic() + patience
        while (count := self._count(topic, patience)) == 0 and time.monotonic() < deadline:
            time.sleep(0.05)
        if count:
            self._again.pop(topic, None)
            self.known[topic] = TopicTrackers(self._trackers(topic, 0, count), self._partitioner)
            return
        if topic not in self._again:
            log.warning(
                "the partitions of %s are not known: its records go without a stamp until they "
                "are, and the audit will show them as unclaimed",
                topic,
            )
        self._again[topic] = time.monotonic() + _AGAIN_SECONDS

    def _trackers(self, topic: str, first: int, count: int) -> list[PartitionTracker]:
        deliver, only_errors = self._deliver, self._only_errors
        return [
            self._run.tracker(topic, number, deliver, only_errors) for number in range(first, count)
        ]

    def _count(self, topic: str, seconds: float) -> int:
        """The number of its partitions; 0: not known."""
        try:
            told = self._inner.list_topics(topic, timeout=seconds)
        except Exception as error:
            log.debug("no metadata of %s: %s", topic, error)
            return 0
        self.cluster_id = told.cluster_id or self.cluster_id
        found = told.topics.get(topic)
        return 0 if found is None or found.error is not None else len(found.partitions)
