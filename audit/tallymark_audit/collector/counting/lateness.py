"""How late records arrive: the time from their stamp until they were read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tallymark_audit.model import sketches
from tallymark_audit.model.record_runs import Rules, SeenRun
from tallymark_audit.store.counted.lateness import ALL_TOPICS, TOPIC_MS, WHOLE_MS, TopicTime

DAY_MS: Final = 86_400_000


@dataclass(slots=True)
class Lateness:
    """What was measured and not stored yet. These are no counts: a crash may lose them. ``seen`` is
    by topic and day, ``lately`` by topic and hour, and of all topics by ten minutes."""

    seen: dict[TopicTime, sketches.Sketch] = field(default_factory=dict[TopicTime, sketches.Sketch])
    lately: dict[TopicTime, sketches.Sketch] = field(
        default_factory=dict[TopicTime, sketches.Sketch]
    )

    def add(self, runs: Iterable[SeenRun], topic: str, rules: Rules) -> None:
        """Add the records of one fetch, if they were read when they arrived. Records of clocks that
        are ahead or far off, and back-fills, do not show how long a record takes."""
        at = rules.seen_at
        if at < 0:
            return
        found: sketches.Sketch = {}
        for run in runs:
            ahead = run.max_timestamp > at
            if not (ahead or run.skewed or run.aborted or run.key.instance in rules.exempt):
                sketches.merge_into(found, run.latency)
        if found:
            for known, name, span in (
                (self.seen, topic, DAY_MS),
                (self.lately, topic, TOPIC_MS),
                (self.lately, ALL_TOPICS, WHOLE_MS),
            ):
                sketches.merge_into(known.setdefault((name, at - at % span), {}), found)

    def clear(self) -> None:
        """It is stored."""
        self.seen.clear()
        self.lately.clear()
