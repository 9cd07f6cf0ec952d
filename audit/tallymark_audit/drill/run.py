"""The story of a drill. The order matters for honesty: verdicts are read before the seals, the
producers' books and the logs are opened, and the audit gets nothing but its settings."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any, Final

from tallymark.errors import UserError
from tallymark_audit.demo.narrate import Narrator
from tallymark_audit.drill.compare import Comparison, compare
from tallymark_audit.drill.deeds import Deeds
from tallymark_audit.drill.expected import LOSS, Expectation, Item, expect, expect_skew
from tallymark_audit.drill.faults import write_orders
from tallymark_audit.drill.fleet import Fleet, wait_until
from tallymark_audit.drill.found import (
    ALARMS,
    items_of,
    located,
    read_reporters,
    read_skewed,
    read_verdicts,
)
from tallymark_audit.drill.plan import Plan
from tallymark_audit.drill.report import Outcome, hits_of, named
from tallymark_audit.drill.seal import Seal, open_seals
from tallymark_audit.drill.sightings import Watcher, times_of
from tallymark_audit.drill.stage import (
    COMMAND_SECONDS,
    REPAIR_SECONDS,
    SETTLE_SECONDS,
    Stage,
    now_ms,
)
from tallymark_audit.drill.topology import (
    AGGREGATE,
    CONSUMER_HOP,
    GROUP,
    SKEW_MS,
    TOPIC,
    WINDOW_MS,
    Topology,
)
from tallymark_audit.drill.truth import LostHost, read_books, read_consumed, read_log
from tallymark_audit.judge.states import State

PARTLY: Final = 3
"""Exit code of a repair that could not copy everything."""


class Drill:
    """One drill of one plan. ``rate``: messages a second of each producer."""

    def __init__(self, plan: Plan, topology: Topology, narrator: Narrator, rate: float) -> None:
        self._plan = plan
        self._topology = topology
        self._narrator = narrator
        self._fleet = Fleet(topology)
        self._stage = Stage(topology, self._fleet, narrator)
        self._seal = Seal(topology.sealed / "drill.sealed")
        self._deeds = Deeds(self._stage, self._seal, random.Random(plan.seed), rate)
        self._start = 0

    def run(self) -> Outcome:
        """Everything, from the first process to the last comparison. UserError: the drill itself
        could not go on; what it started is ended in any case."""
        with ExitStack() as stack:
            stack.callback(self._topology.release)
            stack.callback(self._seal.close)
            stack.callback(self._fleet.close)
            self._stage.begin(self._plan.seed)
            watcher = Watcher(self._stage.store)
            stack.callback(watcher.close)
            self._traffic()
            problems = [text for lost in self._deeds.lost for text in self._retire(lost)]
            rows, waiting = self._stage.verdicts("letting the windows settle")
            found = items_of(rows) | read_skewed(self._stage.store)
            with self._narrator.step("opening the seals: what was really done?"):
                expectation = self._expect()
                comparison = compare(expectation, found, located(rows), waiting)
                notes = open_seals(self._topology.sealed)
                outcome = Outcome(
                    seed=self._plan.seed,
                    faults=self._plan.faults,
                    messages=sum(expectation.messages.values()),
                    duration=self._plan.duration,
                    hits=hits_of(notes),
                    comparison=comparison,
                    hidden=expectation.hidden,
                    times=times_of(expectation.items, notes, watcher.seen),
                    problems=problems,
                )
                self._tell(comparison)
            self._repair(expectation, outcome)
            self._fleet.check()
        return outcome

    # -- traffic and faults ---------------------------------------------------------------------

    def _traffic(self) -> None:
        senders = self._plan.senders
        title = f"{len(senders)} producers for {self._plan.duration:g} s, and the faults"
        with self._narrator.step(title):
            for name in [self._deeds.send(sender) for sender in senders]:
                self._fleet.wait_ready(name)
            if CONSUMER_HOP in self._topology.hops:
                self._deeds.consume()
            self._start = now_ms()
            for hop in self._topology.hops:
                orders = self._plan.orders_from(hop, self._start)
                write_orders(self._fleet.orders_file(hop), orders)
            for action in self._plan.actions:
                self._until(action.at)
                self._deeds.do(action)
            self._until(self._plan.duration)
            self._until_all_have_hit()
            for hop in self._topology.hops:
                write_orders(self._fleet.orders_file(hop), [])
            self._fleet.finish("producer-", COMMAND_SECONDS)

    def _until_all_have_hit(self) -> None:
        """Go on as long as a fault has hit nothing (its hop stood still), up to as long again."""
        wanted = [(hop, one.kind) for hop, orders in self._plan.orders.items() for one in orders]
        end = self._start + 2 * self._plan.duration * 1000
        while now_ms() < end and not all(self._fleet.has_hit(*one) for one in wanted):
            self._fleet.check()
            time.sleep(0.2)

    def _until(self, seconds: float) -> None:
        while now_ms() < self._start + seconds * 1000:
            self._fleet.check()
            time.sleep(0.05)

    # -- verdicts and truth ---------------------------------------------------------------------

    def _retire(self, lost: LostHost) -> Iterable[str]:
        """Of a lost host nobody can tell: its windows have to be UNKNOWN, or worse and say so,
        until a person says that it will not return. The problems there were with that."""
        edge, window = f"producer-to-{lost.cluster}", lost.at - lost.at % WINDOW_MS

        def is_held_by_it() -> bool:
            # What another fault did to the window outranks that it is not known.
            rows = read_verdicts(self._stage.store, [State.UNKNOWN, *ALARMS])
            (reasons,) = [
                row["reasons"] for row in rows if (row["edge"], row["window"]) == (edge, window)
            ] or [[]]
            return any(lost.instance in reason for reason in reasons)

        with self._narrator.step(f"{edge} has to be UNKNOWN from the lost host on"):
            try:
                why = f"{edge} is not held by the lost host's silence"
                wait_until(is_held_by_it, SETTLE_SECONDS, why, self._fleet)
            except UserError as error:
                yield str(error)
            for reporter in read_reporters(self._stage.store, lost.instance):
                command = self._fleet.command("retire", ["audit", "retire", reporter])
                if command.wait(COMMAND_SECONDS):
                    yield str(command.fail("failed"))

    def _expect(self) -> Expectation:
        logs = {
            cluster.name: read_log(self._topology.straight(cluster.name), [TOPIC])
            for cluster in self._topology.deployment.clusters
        }
        pairs = self._topology.mirrors
        if CONSUMER_HOP in self._topology.hops:
            group = f"group:{GROUP}"
            logs[group] = read_consumed(self._topology.sealed / f"{GROUP}.consumed", TOPIC)
            pairs = [*pairs, (AGGREGATE, group)]
        books = read_books(self._topology.sealed)
        found = expect(books, logs, pairs, WINDOW_MS, self._deeds.lost)
        expect_skew(found, books, self._start - SKEW_MS, WINDOW_MS)
        return found

    def _tell(self, comparison: Comparison) -> None:
        for what in ("missed", "invented", "unplaced"):
            for line in named(getattr(comparison, what)):
                self._narrator.say(f"[red]{what}[/] {line}")
        for line in comparison.undecided:
            self._narrator.say(f"[red]undecided[/] {line}")

    # -- repair ---------------------------------------------------------------------------------

    def _repair(self, before: Expectation, outcome: Outcome) -> None:
        """Copy what is still upstream, and see that only what cannot be repaired is left."""
        lost = {item for item in before.items if item.kind == LOSS}
        mirrored = {item for item in lost if item.mirrored}
        if not mirrored:
            return
        began = time.monotonic()
        with self._narrator.step(f"repairing {len(mirrored)} messages"):
            command = self._fleet.command("repair", ["audit", "repair", "--apply"])
            code = command.wait(REPAIR_SECONDS)
            if code not in ((0, PARTLY) if lost > mirrored else (0,)):
                outcome.problems.append(str(command.fail(f"ended with exit {code}")))
            self._wait_for_green(mirrored, outcome)
        outcome.repair_seconds = time.monotonic() - began
        rows, waiting = self._stage.verdicts("letting the windows settle again")
        found = items_of(rows) | read_skewed(self._stage.store)
        with self._narrator.step("comparing once more"):
            after = self._expect()
            left = after.items & mirrored
            outcome.repaired = len(mirrored) - len(left)
            outcome.problems += [f"not repaired: {line}" for line in named(left)]
            outcome.after = compare(after, found, located(rows), waiting)
            self._tell(outcome.after)

    def _wait_for_green(self, mended: set[Item], outcome: Outcome) -> None:
        windows = {(item.cell.edge, item.cell.window) for item in mended}

        def is_green() -> bool:
            rows: list[dict[str, Any]] = read_verdicts(self._stage.store)
            short = [row for row in rows if row["missing"]]
            return windows.isdisjoint((row["edge"], row["window"]) for row in short)

        try:
            wait_until(is_green, SETTLE_SECONDS, "repaired windows are still short", self._fleet)
        except UserError as error:
            outcome.problems.append(str(error))
