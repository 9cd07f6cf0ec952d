"""The story of a drill. The order matters for honesty: verdicts are read before the seals, the
producers' books and the logs are opened, and the audit gets nothing but its settings."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Any, Final

from tallymark.clock import now_ms
from tallymark.errors import UserError
from tallymark_audit.proof.drill.evidence import recorded
from tallymark_audit.proof.drill.faults import kinds
from tallymark_audit.proof.drill.faults.ground_truth import GroundTruthWriter, read_ground_truth
from tallymark_audit.proof.drill.faults.kinds import write_orders
from tallymark_audit.proof.drill.findings.detection_times import StoreWatcher, times_of
from tallymark_audit.proof.drill.findings.found import items_of, located, read_skewed, read_verdicts
from tallymark_audit.proof.drill.findings.taken_back import (
    WindowKey,
    alerts_taken_back,
    in_alarm,
    read_alerts,
    read_history,
    taken_back,
)
from tallymark_audit.proof.drill.planning.plan import DrillPlan
from tallymark_audit.proof.drill.planning.topology import CONSUMER_HOP, Topology
from tallymark_audit.proof.drill.running.actions import Actions
from tallymark_audit.proof.drill.running.failover_actions import FailoverActions
from tallymark_audit.proof.drill.running.follow_up import (
    compare_with_spark,
    look_again,
    looks_for,
    retire_lost,
)
from tallymark_audit.proof.drill.running.lake_actions import load_rest
from tallymark_audit.proof.drill.running.processes import DrillProcesses, wait_until
from tallymark_audit.proof.drill.running.side_actions import SideActions
from tallymark_audit.proof.drill.running.stage import (
    COMMAND_SECONDS,
    REPAIR_SECONDS,
    SETTLE_SECONDS,
    Stage,
)
from tallymark_audit.proof.drill.running.transaction_actions import TransactionActions
from tallymark_audit.proof.drill.scoring.causes import causes_of, told, uncaused
from tallymark_audit.proof.drill.scoring.compare import Comparison, compare
from tallymark_audit.proof.drill.scoring.report import DrillOutcome, hits_of, named
from tallymark_audit.proof.drill.scoring.scorer import Scorer
from tallymark_audit.proof.drill.truth.copies import Copies, header_reader
from tallymark_audit.proof.drill.truth.expected import (
    DUPLICATION,
    LOSS,
    UNCLAIMED,
    Expectation,
    Finding,
)
from tallymark_audit.proof.drill.truth.whole_truth import Gone, Truth, expect_all, read_truth
from tallymark_audit.proof.harness.narrate import Narrator

_SHOWN: Final = 20
"""So many copies, and wrong verdicts, are told in full."""
PARTLY: Final = 3
"""Exit code of a repair that could not copy everything."""


class Drill:
    """One drill of one plan. ``rate``: messages a second of each producer. ``with_spark``: Spark
    counts everything too, and has to say the same as the collectors."""

    def __init__(
        self,
        plan: DrillPlan,
        topology: Topology,
        narrator: Narrator,
        rate: float,
        with_spark: bool = False,
    ) -> None:
        self._with_spark = with_spark
        self._plan = plan
        self._topology = topology
        self._narrator = narrator
        self._processes = DrillProcesses(topology)
        self._stage = Stage(topology, self._processes, narrator)
        self._ground_truth = GroundTruthWriter(topology.sealed / "drill.sealed")
        self._actions = Actions(self._stage, self._ground_truth, random.Random(plan.seed), rate)
        chance = random.Random(f"beside {plan.seed}")
        self._side_actions = SideActions(self._stage, self._ground_truth, chance)
        self._failovers = FailoverActions(self._stage, self._ground_truth)
        self._transactions = TransactionActions(self._stage, self._ground_truth, self._actions)
        self._start = 0

    def run(self) -> DrillOutcome:
        """The whole drill, from the first process to the last comparison. UserError: the drill
        itself failed; what it started is ended in any case, and what it made is kept
        (:mod:`.evidence`)."""
        with ExitStack() as stack:
            stack.callback(self._topology.release)
            folder, seed = self._topology.folder, self._plan.seed
            outcomes = stack.enter_context(recorded(folder, seed, self._narrator))
            stack.callback(self._ground_truth.close)
            stack.callback(self._processes.close)
            self._stage.begin(self._plan.seed, self._plan.topics)
            watcher = StoreWatcher(self._stage.store)
            stack.callback(watcher.close)
            self._traffic()
            load_rest(self._stage, self._plan.lake_topics)
            unheld = list(
                retire_lost(self._stage, self._actions.lost, self._side_actions.lost_members)
            )
            problems = list(unheld)
            rows, waiting = self._verdicts("letting the windows settle")
            if looks := looks_for(self._plan.faults):
                problems += look_again(self._stage, looks)
                rows, waiting = self._verdicts("letting the windows settle after a second look")
            if self._with_spark:
                problems += compare_with_spark(self._stage)
            found = items_of(rows) | read_skewed(self._stage.store)
            with self._narrator.step("opening the seals: what was really done?"):
                truth = self._read_truth()
                expectation = self._expect(truth)
                comparison = compare(expectation, found, located(rows), waiting)
                notes = read_ground_truth(self._topology.sealed)
                outcome = DrillOutcome(
                    seed=self._plan.seed,
                    faults=self._plan.faults,
                    messages=sum(expectation.messages.values()),
                    duration=self._plan.duration,
                    hits=hits_of(notes),
                    comparison=comparison,
                    hidden=expectation.hidden,
                    times=times_of(expectation.items, notes, watcher.seen),
                    taken_back=self._taken_back(rows),
                    problems=problems,
                )
                scorer = Scorer(self._stage, rows, notes, self._gone, unheld)
                beside = [kind for kind in self._plan.faults if kind in kinds.SIDE_FAULTS]
                outcome.beside = tuple(
                    scorer.score(kind, expectation, comparison) for kind in beside
                )
                outcome.problems += scorer.unexplained()
                self._tell_copies(truth, expectation, outcome)
                if kinds.TRANSACTIONS in self._plan.faults:
                    self._tell_aborted(expectation, outcome)
                self._tell(comparison)
            before = in_alarm(rows)
            self._repair(expectation, outcome, before)
            self._processes.check()
            outcome.deaths = list(self._processes.deaths)
            outcomes.append(outcome)
        return outcome

    # -- traffic and faults ---------------------------------------------------------------------

    def _traffic(self) -> None:
        senders = self._plan.senders
        title = f"{len(senders)} producers for {self._plan.duration:g} s, and the faults"
        with self._narrator.step(title):
            for name in [self._actions.send(sender) for sender in senders]:
                self._processes.wait_ready(name)
            if CONSUMER_HOP in self._topology.hops:
                self._side_actions.consume()
            self._start = now_ms()
            for hop in self._topology.hops:
                orders = self._plan.orders_from(hop, self._start)
                write_orders(self._processes.orders_file(hop), orders)
            for action in self._plan.actions:
                self._until(action.at)
                if action.kind in kinds.REPLICA_FAULTS:
                    self._failovers.do(action)
                elif action.kind == kinds.TRANSACTIONS:
                    (topic,) = [one for one in self._plan.topics if one.name == action.kind]
                    self._transactions.do(action, topic)
                elif action.kind in kinds.SIDE_FAULTS:
                    self._side_actions.do(action, self._plan.topics)
                else:
                    self._actions.do(action)
            self._until(self._plan.duration)
            self._until_all_have_hit()
            for hop in self._topology.hops:
                write_orders(self._processes.orders_file(hop), [])
            self._processes.finish("producer-", COMMAND_SECONDS)

    def _until_all_have_hit(self) -> None:
        """Go on while a fault has hit nothing (its hop had no traffic), at most as long again."""
        wanted = [(hop, one.kind) for hop, orders in self._plan.orders.items() for one in orders]
        end = self._start + 2 * self._plan.duration * 1000
        while now_ms() < end and not all(self._processes.has_hit(*one) for one in wanted):
            self._processes.check()
            time.sleep(0.2)

    def _until(self, seconds: float) -> None:
        while now_ms() < self._start + seconds * 1000:
            self._processes.check()
            time.sleep(0.05)

    # -- verdicts and truth ---------------------------------------------------------------------

    def _verdicts(self, title: str) -> tuple[list[dict[str, Any]], list[str]]:
        def unreadable(row: Mapping[str, Any]) -> bool:
            places = self._side_actions.unreadable
            return any(one.covers(row["edge"], row["topic"], row["window"]) for one in places)

        return self._stage.verdicts(title, unreadable=unreadable)

    def _read_truth(self) -> Truth:
        beside = self._side_actions
        return read_truth(self._topology, self._plan.topics, beside.old_logs, beside.unreadable)

    def _expect(self, truth: Truth) -> Expectation:
        return expect_all(truth, self._topology, self._start, self._gone)

    @property
    def _gone(self) -> Gone:
        beside, elections = self._side_actions, self._failovers.elections
        return Gone(self._actions.lost, beside.lost_members, beside.unreadable, elections)

    def _taken_back(
        self, rows: list[dict[str, Any]], since: int = 0, but: Iterable[WindowKey] = ()
    ) -> list[str]:
        store = self._stage.store
        return [
            *taken_back(read_history(store), rows, since, but),
            *alerts_taken_back(read_alerts(store), self._plan.faults, since),
        ]

    def _tell_copies(self, truth: Truth, expectation: Expectation, outcome: DrillOutcome) -> None:
        """Name the copies that nothing explains, and where the messages of wrong verdicts lie."""
        copies = Copies(truth.all_logs, header_reader(self._topology.straight))
        causes = causes_of(self._plan, self._topology.hops)
        outcome.problems += told(uncaused(expectation.items, causes), copies.describe, _SHOWN)
        wrong = [*outcome.comparison.missed, *outcome.comparison.invented]
        messages = sorted(item for item in wrong if item.kind in (LOSS, DUPLICATION, UNCLAIMED))
        outcome.places = [copies.describe(item) for item in messages[:_SHOWN]]

    def _tell_aborted(self, expectation: Expectation, outcome: DrillOutcome) -> None:
        if not expectation.aborted:
            outcome.problems.append("no transaction was aborted: the drill proves nothing of them")
        self._narrator.say(f"{expectation.aborted} messages were of aborted transactions")

    def _tell(self, comparison: Comparison) -> None:
        for what in ("missed", "invented", "unplaced"):
            for line in named(getattr(comparison, what)):
                self._narrator.say(f"[red]{what}[/] {line}")
        for line in comparison.undecided:
            self._narrator.say(f"[red]undecided[/] {line}")

    # -- repair ---------------------------------------------------------------------------------

    def _repair(self, before: Expectation, outcome: DrillOutcome, called: set[WindowKey]) -> None:
        """Repair, and check that only what cannot be repaired is left, and that no other window
        became wrong meanwhile; ``called``: the windows that were wrong before."""
        there = before.there
        if not there:
            return
        since = now_ms()
        began = time.monotonic()
        with self._narrator.step(f"repairing {len(there)} messages"):
            command = self._processes.command("repair", ["audit", "repair", "--apply"])
            code = command.wait(REPAIR_SECONDS)
            if code not in ((0, PARTLY) if before.may_be_refused else (0,)):
                outcome.problems.append(str(command.fail(f"ended with exit {code}")))
            self._wait_for_green(there, outcome)
        outcome.repair_seconds = time.monotonic() - began
        rows, waiting = self._verdicts("letting the windows settle again")
        found = items_of(rows) | read_skewed(self._stage.store)
        with self._narrator.step("comparing once more"):
            after = self._expect(self._read_truth())
            left = after.items & there
            outcome.repaired = len(there) - len(left)
            outcome.problems += [f"not repaired: {line}" for line in named(left)]
            outcome.after = compare(after, found, located(rows), waiting)
            more = self._taken_back(rows, since, called)
            outcome.taken_back += [line for line in more if line not in outcome.taken_back]
            self._tell(outcome.after)

    def _wait_for_green(self, repaired: set[Finding], outcome: DrillOutcome) -> None:
        # A window may lack for good what another fault has taken.
        windows = {(item.cell.edge, item.cell.topic, item.cell.window) for item in repaired}

        def is_green() -> bool:
            rows: list[dict[str, Any]] = read_verdicts(self._stage.store)
            short = [row for row in rows if row["missing"]]
            return windows.isdisjoint((row["edge"], row["topic"], row["window"]) for row in short)

        try:
            wait_until(
                is_green, SETTLE_SECONDS, "repaired windows are still short", self._processes
            )
        except UserError as error:
            outcome.problems.append(str(error))
