"""How late records arrive: the time from their stamp until they were read."""

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
    """What was measured and not stored yet. These are no counts: a crash may lose them."""

    seen: dict[TopicDay, sketches.Sketch] = field(default_factory=dict[TopicDay, sketches.Sketch])

    def add(self, runs: Iterable[SeenRun], topic: str, rules: Rules) -> None:
        """Add the records of one fetch, if they were read when they arrived. Records of clocks that
        are ahead or far off, and back-fills, do not show how long a record takes."""
        if rules.seen_at < 0:
            return
        for run in runs:
            ahead = run.max_timestamp > rules.seen_at
            if not (ahead or run.skewed or run.aborted or run.key.instance in rules.exempt):
                day = rules.seen_at - rules.seen_at % DAY_MS
                sketches.merge_into(self.seen.setdefault((topic, day), {}), run.latency)

    def clear(self) -> None:
        """It is stored."""
        self.seen.clear()
