"""What clients and a reader of a simulated run did and saw, for Jepsen's checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from operations import Ended, Operation, Poll, Send

if TYPE_CHECKING:
    from txn_world import World

_ENDS: Final = {"committed": Ended.OK, "aborted": Ended.FAILED}


def operations_of(world: World) -> list[Operation]:
    """Every transaction with what it wrote, and read where it is a copy; and what a reader of
    committed records saw."""
    check = world.check
    places = {
        value: (place[0] + str(place[1]), offset)
        for place, got in check.seen.items()
        for offset, value in got.items()
    }
    operations: list[Operation] = []
    for number, told in world.transactions.items():
        steps: list[Send | Poll] = []
        for _, value in told.sent:
            original = world.copied.get(value)
            if original is not None and original in places:
                source, offset = places[original]
                steps.append(Poll(source, offset, _text(original)))
        ended = _ENDS.get(told.phase, Ended.IN_DOUBT)
        in_log = check.acknowledged_of(number)
        for place, value in told.sent:
            known = places[value][1] if value in in_log and value in places else None
            steps.append(Send(place[0] + str(place[1]), _text(value), known))
        who = f"{told.client!r} {number}"  # a copier that aborts reads again
        operations.append(Operation(who, ended, steps, at=told.at, commit_asked=told.asked_at))
    for at, place, offset, value in check.reads:
        poll = Poll(place[0] + str(place[1]), offset, _text(value))
        operations.append(Operation(f"reader of {place}", Ended.OK, (poll,), at=at))
    return sorted(operations, key=lambda one: -1.0 if one.at is None else one.at)


def _text(value: Any) -> str:
    return f"{value[0]}:{value[1]}"
