"""Doing what the plan says to the processes: sending, killing, pausing, cutting. What is done is
sealed at once."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

from tallymark.clock import now_ms
from tallymark.errors import UserError
from tallymark_audit.proof.drill.faults import kinds, log_faults
from tallymark_audit.proof.drill.faults.ground_truth import FaultNote, GroundTruthWriter
from tallymark_audit.proof.drill.planning.plan import (
    LOG_FAULTS,
    LOST_HOST,
    PAUSE,
    PlannedAction,
    Sender,
)
from tallymark_audit.proof.drill.planning.topology import TOPIC, broker_of
from tallymark_audit.proof.drill.running.processes import wait_until
from tallymark_audit.proof.drill.running.stage import Stage
from tallymark_audit.proof.drill.truth.books_and_logs import LostHost, read_book

_MOST_CUT: Final = 12
_TO_CUT: Final = 200
"""Records that are there to be cut out of."""
_MIRROR_SECONDS: Final = 60.0
TRANSACTIONAL_ID: Final = "drill"
_TRANSACTION_MS: Final = 10_000
_PATIENCE_MS: Final = 10_000
"""How long a producer tries to send to a partition that is no longer there."""


class Actions:
    """See the module. ``rate``: messages a second of each producer. ``lost``: hosts that are gone
    with the journals of their producers."""

    def __init__(
        self, stage: Stage, ground_truth: GroundTruthWriter, chance: random.Random, rate: float
    ) -> None:
        self.lost: list[LostHost] = []
        self._stage = stage
        self._processes = stage.processes
        self._topology = stage.topology
        self._ground_truth = ground_truth
        self._chance = chance
        self._rate = rate
        self._senders: dict[str, Sender] = {}
        self._books: dict[str, Path] = {}
        self._runs = 0

    def send(self, sender: Sender) -> str:
        """Start a producer, or start it again as another run with a book of its own; its name."""
        self._runs += 1
        name, server = f"producer-{sender.name}", f"web-{sender.name}-{self._runs}"
        book = self._books[name] = self._topology.sealed / f"{server}.book"
        self._senders[name] = sender
        start = self._processes.start_producer
        if sender.topic == kinds.TRANSACTIONS:
            start = self._processes.start_transactional
        start(
            name,
            {
                "bootstrap": self._bootstrap(sender),
                "cluster": sender.cluster,
                "topic": sender.topic,
                "partitions": sender.partitions,
                "server": server,
                "rate": self._rate,
                "offset_ms": sender.offset_ms,
                "book": str(book),
                "acks": 1 if sender.topic == kinds.LOST_IN_FAILOVER else "all",
                "patience_ms": _PATIENCE_MS if sender.topic in kinds.TOPIC_FAULTS else 0,
                "transactional_id": TRANSACTIONAL_ID,
                "timeout_ms": _TRANSACTION_MS,
                "seed": self._runs,
            },
        )
        return name

    def _bootstrap(self, sender: Sender) -> str:
        """Through the proxy, if there is one, goes only the main topic."""
        if sender.topic == TOPIC:
            return self._topology.bootstrap(sender.cluster)
        return self._topology.straight(sender.cluster)

    def do(self, action: PlannedAction) -> None:
        """One action of the plan. UserError: the drill cannot go on."""
        if action.kind == kinds.TORN_TAIL:
            self._tear(action.name)
        elif action.kind in LOG_FAULTS:
            self._cut_out(action.name)
        else:
            self._ground_truth.write([FaultNote(now_ms(), action.kind, action.name, TOPIC)])
            self._signal(action)

    def _signal(self, action: PlannedAction) -> None:
        name, say = action.name, self._stage.narrator.say
        if action.kind in PAUSE:
            say(f"{name} is stopped for {action.seconds:g} s")
            self._processes.pause(name, action.seconds)
            return
        if action.kind == LOST_HOST:
            self._lose_host(name)
            say(f"{name} is killed, and its journal is gone with its host")
            return
        self._processes.kill(name)
        say(f"{name} is killed and started again")
        if name in self._senders:
            self.send(self._senders[name])
        else:
            self._processes.start(name)

    def _lose_host(self, name: str) -> None:
        """Kill the producer without its journal: what it claimed last can never be known. The
        journal goes first, or another process that starts just then would publish it."""
        book = read_book(self._books[name])
        if book is None:
            raise UserError(f"{name} had not begun when it was to be lost", "drill for longer")
        journal = self._topology.deployment.journal_dir / f"{book.instance}.journal"
        journal.unlink(missing_ok=True)
        self._processes.kill(name)
        self.lost.append(LostHost(book.cluster, book.instance, now_ms()))

    def _tear(self, cluster: str) -> None:
        broker = broker_of(cluster)
        self._processes.kill(broker)
        cut = log_faults.tear(self._topology.broker_folder(cluster), self._chance)
        if cut is not None:
            now = now_ms()
            for hop in self._hops_into(cluster):
                self._ground_truth.write(log_faults.notes_of_cut(cut, hop, now))
            self._stage.narrator.say(f"{broker} is killed, the end of a segment is torn off")
        self._processes.start(broker)

    def _cut_out(self, cluster: str) -> None:
        """Records vanish that were not counted yet, since the collector is away."""
        broker, collector = broker_of(cluster), f"collector-{cluster}"
        self._processes.kill(collector)
        segment = self._topology.broker_folder(cluster) / f"{TOPIC}-0" / f"{0:020}.log"
        end = log_faults.end_of(segment)
        wait_until(
            lambda: log_faults.end_of(segment) > end + _TO_CUT,
            _MIRROR_SECONDS,
            f"nothing arrives on {cluster}",
            self._processes,
        )
        self._processes.kill(broker)
        removed = log_faults.remove_middle(segment, TOPIC, end, self._chance, _MOST_CUT)
        now = now_ms()
        for hop in self._hops_into(cluster):
            self._ground_truth.write(log_faults.notes_of_removed(removed, hop, now))
        self._stage.narrator.say(f"{broker} is killed, {len(removed.records)} records cut out")
        self._processes.start(broker)
        self._processes.start(collector)

    def _hops_into(self, cluster: str) -> list[str]:
        pairs = self._topology.mirrors
        return [f"{source}-to-{target}" for source, target in pairs if target == cluster]
