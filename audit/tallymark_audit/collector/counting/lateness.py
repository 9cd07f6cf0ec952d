"""How late records come: from their stamp until they were seen, of those that tell it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tallymark_audit.model import sketches
from tallymark_audit.model.record_runs import Rules, SeenRun
from tallymark_audit.store.counted.lateness import TopicDay

DAY_MS: Final = 86_400_000


@dataclass(slots=True)
class Lateness:
    """What was seen and not stored yet. It is no count: what a crash loses of it is lost."""

    seen: dict[TopicDay, sketches.Sketch] = field(default_factory=dict[TopicDay, sketches.Sketch])

    def add(self, runs: Iterable[SeenRun], topic: str, rules: Rules) -> None:
        """Take in what one fetch brought, when it was read as it came. Clocks that are ahead, that
        are far off, and back-fills say nothing about how long a record is on its way."""
        if rules.seen_at < 0:
            return
        for run in runs:
            ahead = run.max_timestamp > rules.seen_at
            if not (ahead or run.skewed or run.aborted or run.key.instance in rules.exempt):
                day = rules.seen_at - rules.seen_at % DAY_MS
                known = self.seen.get((topic, day), {})
                self.seen[topic, day] = sketches.merged((known, run.latency))

    def clear(self) -> None:
        """It is stored."""
        self.seen.clear()
