"""The work of a collector since it started, for its log, its metrics and its status line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tallymark.protocol.topic_partition import TopicPartition
from tallymark.shell.counted import counted
from tallymark_audit.collector.ledger import CountedFetch
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.store.counted.positions import Position


@dataclass(slots=True)
class Counters:
    """Totals of what was committed since the start; ``lag`` (offsets) and ``partitions`` are those
    of now, and what was read but not committed is behind, too. Another thread may read them."""

    records: int = 0
    bytes: int = 0
    unstamped: int = 0
    overflowed: int = 0
    """Records of more runs or windows than are kept, which are only counted."""
    malformed: int = 0
    skewed: int = 0
    aborted: int = 0
    events: int = 0
    bad_events: int = 0
    commits: int = 0
    refused: int = 0
    """Partitions and charges that other collectors took away."""
    failures: int = 0
    """Rounds in which the cluster or the store could not be used."""
    partitions: int = 0
    lag: int = 0
    store_refuses: bool = False
    """Whether the last attempt to write to the store failed."""
    in_charge: bool = False

    def committed(self, found: Iterable[CountedFetch]) -> None:
        """Take in what was just committed."""
        self.commits += 1
        for one in found:
            if one.monitoring is not None:
                self.events += len(one.monitoring.events)
                self.bad_events += one.monitoring.bad
            for run in one.runs:
                if run.aborted:
                    self.aborted += run.count
                    continue
                self.records += run.count
                self.bytes += run.bytes
                self.malformed += run.malformed
                self.skewed += run.skewed
                if run.key.stamped:
                    continue
                if run.key.overflow:
                    self.overflowed += run.count
                else:
                    self.unstamped += run.count

    def stands(
        self,
        positions: Mapping[TopicPartition, Position],
        uncommitted: Mapping[TopicPartition, int],
        in_charge: bool,
    ) -> None:
        """Update the lag from the positions of the partitions. ``uncommitted``: from which offset
        on those are not in the store that were read further."""
        self.partitions = len(positions)
        self.in_charge = in_charge
        self.lag = sum(
            max(0, at.high_watermark - min(at.next_offset, uncommitted.get(place, at.next_offset)))
            for place, at in positions.items()
            if at.topic != AUDIT_TOPIC
        )

    def status(self) -> str:
        """A line for people."""
        charge = ", in charge" if self.in_charge else ""
        odd = {"malformed": self.malformed, "skewed": self.skewed, "aborted": self.aborted}
        odd["of more runs than are kept"] = self.overflowed
        told = "".join(f", {count:,} {what}" for what, count in odd.items() if count)
        bad = f", {self.bad_events:,} bad" if self.bad_events else ""
        refuses = " or more (the store refuses)" if self.store_refuses else ""
        return (
            f"{self.records:,} records of {counted(self.partitions, 'partition')}, "
            f"{self.lag:,} behind{refuses}{told}; {self.events:,} events{bad}{charge}"
        )
