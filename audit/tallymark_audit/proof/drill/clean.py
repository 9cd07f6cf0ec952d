"""A drill without faults: many messages as fast as they go, and never an alarm, not even one that
is taken back."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

from tallymark.clock import now_ms
from tallymark_audit.proof.drill.findings.found import GREEN, read_alarms
from tallymark_audit.proof.drill.planning.topology import DATACENTERS, TOPIC, Topology
from tallymark_audit.proof.drill.running.processes import DrillProcesses
from tallymark_audit.proof.drill.running.stage import SETTLE_SECONDS, Stage
from tallymark_audit.proof.harness.narrate import Narrator

_VALUE_BYTES: Final = 100
_SLOWEST: Final = 2_000
"""Messages a second: slower than this means that something hangs."""
_SHOWN: Final = 10


@dataclass(slots=True)
class CleanOutcome:
    """``messages`` that were acknowledged to producers, judged in so many ``windows``. ``seconds``:
    of producing, and until all was judged."""

    messages: int = 0
    windows: int = 0
    produced_seconds: float = 0.0
    judged_seconds: float = 0.0
    problems: list[str] = field(default_factory=list[str])


class CleanRun:
    """``messages`` through the whole topology, half of them in each datacenter."""

    def __init__(self, topology: Topology, narrator: Narrator, messages: int) -> None:
        self._topology = topology
        self._narrator = narrator
        self._messages = messages
        self._processes = DrillProcesses(topology)
        self._stage = Stage(topology, self._processes, narrator)

    def run(self) -> CleanOutcome:
        """From the first process to the last verdict. UserError: the run could not go on."""
        outcome = CleanOutcome()
        patience = SETTLE_SECONDS + self._messages / _SLOWEST
        with ExitStack() as stack:
            stack.callback(self._topology.release)
            stack.callback(self._processes.close)
            self._stage.begin(seed=0)
            began = now_ms()
            with self._narrator.step(f"producing {self._messages:,} messages"):
                outcome.messages = self._produce(patience)
            outcome.produced_seconds = (now_ms() - began) / 1000
            rows, waiting = self._stage.verdicts("letting the windows settle", patience)
            outcome.judged_seconds = (now_ms() - began) / 1000
            outcome.windows = len(rows)
            outcome.problems += [f"not decided: {line}" for line in waiting[:_SHOWN]]
            outcome.problems += self._problems(rows, outcome.messages)
            alarms = read_alarms(self._stage.store)
            outcome.problems += [f"false alarm: {line}" for line in alarms[:_SHOWN]]
        return outcome

    def _produce(self, patience: float) -> int:
        books = {name: self._topology.folder / f"bulk-{name}.book" for name in DATACENTERS}
        share = self._messages // len(DATACENTERS)
        rest = self._messages - share * len(DATACENTERS)
        for place, (name, book) in enumerate(books.items()):
            config = {
                "bootstrap": self._topology.straight(name),
                "topic": TOPIC,
                "server": f"bulk-{name}",
                "count": share + (rest if place == 0 else 0),
                "size": _VALUE_BYTES,
                "book": str(book),
            }
            self._processes.start_bulk(f"bulk-{name}", config)
        self._processes.wait_for_end("bulk-", patience)
        return sum(int(book.read_text(encoding="utf-8")) for book in books.values())

    def _problems(self, rows: list[dict[str, Any]], messages: int) -> list[str]:
        problems = [
            f"{row['edge']} {row['window']} is {row['state']}: {row['reasons']}"
            for row in rows
            if row["state"] not in GREEN
        ][:_SHOWN]
        edges = {f"producer-to-{name}" for name in DATACENTERS}
        hops = {"producers": edges, "mirrors": {f"{a}-to-{b}" for a, b in self._topology.mirrors}}
        for what, names in hops.items():
            for column in ("claimed", "observed"):
                found = sum(row[column] for row in rows if row["edge"] in names)
                if found != messages:
                    problems.append(f"of {messages} messages, {found} are {column} on {what}' hops")
        return problems
