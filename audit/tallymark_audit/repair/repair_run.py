"""A whole repair: a plan is carried out, and the store keeps the result of each item and who
started it. ``tallymark audit repair --apply`` and the dashboards run this."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection

from tallymark.clock import now_ms
from tallymark.deployment import Deployment
from tallymark.trail import Doer, record_command, user_of_command
from tallymark_audit.model.cells import Edge
from tallymark_audit.model.edges import derive_edges, discovered_group
from tallymark_audit.model.time_format import utc
from tallymark_audit.repair.apply import ItemResult, apply_plan
from tallymark_audit.repair.load_again import load_again, parted
from tallymark_audit.repair.plan import RepairPlan
from tallymark_audit.repair.upstream import Clusters
from tallymark_audit.store import Store
from tallymark_audit.store.counted.groups import groups_on
from tallymark_audit.store.judged.decisions import About, Decision, finish_decision, note_decision
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.store.schema.tables import repairs

MOST_REASONS = 5
"""Different reasons that the store keeps of one repair."""


def repairable_edges(deployment: Deployment, connection: Connection) -> list[Edge]:
    """Those of the settings, and of the groups that are only known from their reports."""
    edges = {edge.name: edge for edge in derive_edges(deployment)}
    for cluster in deployment.clusters:
        for group, topics in groups_on(connection, cluster.name).items():
            found = discovered_group(cluster.name, group, topics)
            edges.setdefault(found.name, found)
    return list(edges.values())


@dataclass
class RepairRun:
    """Carries out plans for the ``doer``. ``settings`` is the path of the settings file, if one was
    given: the process that loads again needs it."""

    store: Store
    deployment: Deployment
    clusters: Clusters
    settings: str | None = None
    doer: Doer = field(default_factory=user_of_command)
    now: Callable[[], int] = now_ms

    def carry_out(
        self, plan: RepairPlan, about: About, tell: Callable[[ItemResult], object]
    ) -> list[ItemResult]:
        """Copy and load again what the plan says; ``tell`` is called with each item as soon as its
        result is stored. ``about`` is what the store notes. ConnectError: a cluster cannot be
        reached; what was copied stays copied."""
        results: list[ItemResult] = []
        number = self._begin(plan, about)

        def done(result: ItemResult) -> None:
            results.append(result)
            self._keep(result)
            tell(result)

        try:
            copied, loaded = parted(plan)
            apply_plan(copied, self.clusters, done)
            load_again(loaded, self.settings, done)
        except BaseException as error:
            self._end(number, "broke off", results, plan, str(error) or type(error).__name__)
            raise
        self._end(number, outcome_of(results), results, plan)
        return results

    def _begin(self, plan: RepairPlan, about: About) -> int:
        detail = {"items": len(plan.items), "messages": plan.count}
        decision = Decision(
            self.doer, "repair", about, outcome="running", detail=detail, finished=False
        )
        with self.store.write() as connection:
            return note_decision(connection, self.now(), decision)

    def _end(
        self,
        number: int,
        outcome: str,
        results: Sequence[ItemResult],
        plan: RepairPlan,
        error: str = "",
    ) -> None:
        detail = summary_of(results, plan)
        if error:
            detail["error"] = error
        with self.store.write() as connection:
            finish_decision(connection, number, self.now(), outcome, detail)

    def _keep(self, result: ItemResult) -> None:
        item, key = result.item, result.item.key
        row = {
            "at": self.now(),
            "edge": item.edge,
            "topic": key.topic,
            "window": key.window,
            "partition": key.partition,
            "server": key.server,
            "instance": key.instance,
            "sequences": item.missing.to_list(),
            "copied": result.copied.size,
            "present": result.present.size,
            "outcome": result.outcome,
            "reason": result.reason,
        }
        with self.store.write() as connection:
            connection.execute(repairs.insert().values(**row))
        record_command(
            self.now(),
            "REPAIR",
            ("partition", f"{key.topic}-{key.partition} on {item.edge} at {utc(key.window)}"),
            after={name: row[name] for name in ("sequences", "copied", "present", "outcome")},
            message=result.reason or None,
            folder=self.deployment.data_dir.absolute(),
            doer=self.doer,
        )


def outcome_of(results: Sequence[ItemResult]) -> str:
    """``repaired``, ``nothing to do``, ``partly`` or ``failed``: of all items together."""
    if not results:
        return "nothing to do"
    good = sum(one.outcome in ("repaired", "present") for one in results)
    if good == len(results):
        return "repaired"
    return "partly" if good or any(one.copied or one.present for one in results) else "failed"


def summary_of(results: Sequence[ItemResult], plan: RepairPlan) -> Row:
    """The counts of a repair, in messages, and its most frequent reasons."""
    reasons = Counter(one.reason for one in results if one.reason)
    windows = sorted({item.key.window for item in plan.items})
    return {
        "items": len(plan.items),
        "messages": plan.count,
        "done": len(results),
        "copied": sum(one.copied.size for one in results),
        "present": sum(one.present.size for one in results),
        "windows": [windows[0], windows[-1]] if windows else [],
        "reasons": [why for why, _ in reasons.most_common(MOST_REASONS)],
    }
