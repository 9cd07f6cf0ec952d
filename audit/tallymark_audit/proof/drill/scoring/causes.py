"""Which copies of messages a drill has caused, and which have no cause. Pure.

That a copy is in the log and was found proves the audit right. It does not prove the brokers and
clients right: an idempotent producer's message must be there once, whatever is killed. So each copy
before the repair needs a cause:

=====================================  =============================================================
a proxy on the hop, main topic         it takes the ids of producers away; what is sent again (a
                                       lost answer, a dead leader) is there twice, and it makes
                                       copies itself
a mirror that was killed               goes on at the offsets that it stored last
a member of a group that was killed    what it had in hand is processed again
``lost-in-failover``, where produced   acks=1 is not idempotent
``unclean-election``, where mirrored   what was mirrored, then cut, is produced and mirrored again
another fault with a topic of its own  it makes copies, or hides what became of them: a topic that
                                       is made again, damage at rest, rows of a lake
damage of the main topic's log         what is cut at the source is produced and mirrored again
=====================================  =============================================================

In ``transactions``, and in each topic on all other hops, a copy is a fault of a broker or a client.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

from tallymark_audit.proof.drill.faults import kinds
from tallymark_audit.proof.drill.planning.plan import LOG_FAULTS, DrillPlan
from tallymark_audit.proof.drill.planning.topology import CONSUMER_HOP, TOPIC
from tallymark_audit.proof.drill.truth.expected import DUPLICATION, Finding

_KILL_MIRROR: Final = "kill-mirror"
_ANYWHERE: Final = (*kinds.TOPIC_FAULTS, *kinds.REST_FAULTS, *kinds.LAKE_FAULTS)


@dataclass(frozen=True, slots=True)
class Causes:
    """What a drill did that may copy messages. ``proxied``: hops with a proxy; ``mirrors``: hops
    whose mirror was killed; ``faults``: the kinds of all faults."""

    proxied: frozenset[str]
    mirrors: frozenset[str]
    faults: frozenset[str]

    def explain(self, item: Finding) -> bool:
        """Whether the copy has a cause."""
        edge, topic = item.cell.edge, item.cell.topic
        if edge in self.mirrors or topic in _ANYWHERE:
            return True
        if edge == CONSUMER_HOP and not self.faults.isdisjoint(kinds.CONSUMER_KILLS):
            return True
        if topic == TOPIC:
            return edge in self.proxied or not self.faults.isdisjoint(LOG_FAULTS)
        produced = edge.startswith("producer-")
        of_failover = kinds.LOST_IN_FAILOVER if produced else kinds.UNCLEAN_ELECTION
        return topic == of_failover


def causes_of(plan: DrillPlan, proxied: Collection[str]) -> Causes:
    """The causes in a plan; ``proxied``: the hops that have a proxy."""
    killed = [one.name for one in plan.actions if one.kind == _KILL_MIRROR]
    return Causes(
        frozenset(proxied),
        frozenset(name.removeprefix("mirror-") for name in killed),
        frozenset(plan.faults),
    )


def uncaused(items: Iterable[Finding], causes: Causes) -> list[Finding]:
    """The copies among the findings that have no cause, in order."""
    return sorted(one for one in items if one.kind == DUPLICATION and not causes.explain(one))


def told(items: Iterable[Finding], describe: Callable[[Finding], str], most: int) -> list[str]:
    """A line for each copy without a cause, ``most`` of them, and how many more there are."""
    ordered = sorted(items)
    lines = [f"copied without a cause: {describe(one)}" for one in ordered[:most]]
    left = len(ordered) - most
    return [*lines, f"copied without a cause: {left:,} more"] if left > 0 else lines
