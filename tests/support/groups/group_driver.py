"""The state machine of a group member with a clock, told one thing after the other."""

from __future__ import annotations

from typing import Any

from tallymark.client.group.state_machine import actions as act
from tallymark.client.group.state_machine import events as ev
from tallymark.client.group.state_machine.assignors import GroupMember
from tallymark.client.group.state_machine.machine import decide
from tallymark.client.group.state_machine.state import Phase, Setup, State
from tallymark.coordination.consumers.subscriptions import Subscription
from tallymark.errors import CODES

T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)
ME = {"me": GroupMember(("t",))}


class Driver:
    """A machine with a clock; ``tell`` returns what is to be done, without heartbeats and looks."""

    def __init__(self, *strategies: str, **setup: Any) -> None:
        fixed: dict[str, Any] = {"strategies": strategies or ("range",), "heartbeat_ms": 1000}
        fixed |= {"session_ms": 5000}
        self.state = State(Setup(Subscription({"t": 1}), **(fixed | setup)))
        self.now = 1000

    def tell(self, event: ev.Event) -> list[act.Action]:
        self.state, actions = decide(self.state, event, self.now)
        return [each for each in actions if not isinstance(each, act.Heartbeat | act.Look)]

    def tick(self, ms: int = 0) -> list[act.Action]:
        self.now += ms
        return self.tell(ev.Tick())

    @property
    def ticket(self) -> int:
        return self.state.ticket

    def stable(self, *places: tuple[str, int], generation: int = 1) -> Driver:
        """Alone in the group, with these partitions."""
        self.tell(ev.Found())
        self.tell(ev.Joined(self.ticket, "me", generation, self.state.setup.strategies[0]))
        self.tell(ev.Synced(self.ticket, places))
        if self.state.phase is Phase.LOADING:
            self.tell(ev.Done(self.ticket))
        assert self.state.phase is Phase.STABLE
        return self

    def beat(self, code: str = "NONE") -> list[act.Action]:
        return self.tell(ev.Beaten(self.state.generation, CODES[code]))

    def beats_within(self, ms: int) -> bool:
        """Whether a heartbeat leaves in that time."""
        self.now += ms
        self.state, actions = decide(self.state, ev.Tick(), self.now)
        return any(isinstance(each, act.Heartbeat) for each in actions)
