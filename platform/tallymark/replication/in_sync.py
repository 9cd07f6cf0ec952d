"""Members of an ISR as the controller sees them: which may vote, which may lead, which stay.

A member *may vote* when it surely has all that was committed: it is in the ISR and not
incomplete. A dead member may vote, too: with its log intact it comes back with everything.
"""

from __future__ import annotations

from tallymark.replication.model import NO_LEADER, PartitionView, Picture


def voters(view: PartitionView) -> tuple[int, ...]:
    """The replicas that surely have all that was committed, in the order of the assignment, dead
    ones as well. A broker that the ISR names but that is not assigned has no vote."""
    state = view.state
    return tuple(
        one for one in view.assignment.replicas if one in state.isr and one not in state.incomplete
    )


def candidates(view: PartitionView, picture: Picture) -> tuple[int, ...]:
    """The brokers that may lead without the loss of a committed record, the best first: voters that
    are up, in the order of the assignment, those that are leaving last."""
    up = [one for one in voters(view) if picture.is_up(one)]
    return tuple(sorted(up, key=lambda one: picture.brokers[one].leaving))


def leads(view: PartitionView, picture: Picture) -> bool:
    """Whether the leader that the state names is registered and may vote. A suspected leader
    leads until another one is elected."""
    leader = view.state.leader
    return leader != NO_LEADER and leader in picture.brokers and leader in voters(view)


def kept(view: PartitionView, picture: Picture, leader: int) -> tuple[int, ...]:
    """The ISR without those that cannot be counted on, as far as ``least_isr`` allows, in the order
    of the assignment (for the same members: the ISR as it is).

    First go incomplete members (they may lack committed records), then the dead, the suspected,
    the leaving. Of equals the first of the assignment stay. The leader always stays.
    """
    replicas, isr = view.assignment.replicas, view.state.isr
    members = [one for one in replicas if one in isr or one == leader]
    going = [one for one in members if one != leader and _rank(view, picture, one) > 0]
    going.sort(key=lambda one: (-_rank(view, picture, one), -replicas.index(one)))
    room = max(0, len(members) - view.least_isr)
    left = set(members) - set(going[:room])
    return isr if left == set(isr) else tuple(one for one in members if one in left)


def _rank(view: PartitionView, picture: Picture, broker: int) -> int:
    """0 for a member to count on; the greater, the sooner it leaves."""
    if broker in view.state.incomplete:
        return 4
    if broker not in picture.brokers:
        return 3
    if broker in picture.suspects:
        return 2
    return 1 if picture.brokers[broker].leaving else 0
