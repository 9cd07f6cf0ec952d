"""What the simulation's invariants excuse after a power failure."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from tallymark.testing.simulation.history import Event
from tallymark.testing.simulation.host import BrokerHost
from tallymark.testing.simulation.invariants import BrokenInvariantError, Invariants

HOST = cast(
    BrokerHost,
    SimpleNamespace(folder="/data", disk=SimpleNamespace(exists=lambda path: False)),
)


def test_a_commit_whose_answer_was_on_its_way_may_be_lost_too() -> None:
    """The answer came two milliseconds after the power had failed, and the lost commit was taken
    for one that runs backwards."""
    seen = Invariants(flush=False, topic="t")
    events = [Event(0.1, "c0", "commits", (1, 285, 1))]
    seen.look(events, ())
    seen.power_failed(HOST, (), [("c0", 1)])
    events.append(Event(0.2, "c0", "committed", (1, 285, 1)))
    events.append(Event(0.3, "c0", "committed is", (1, 271, 285, 1)))
    seen.look(events, ())
    events += [
        Event(0.4, "c0", "commits", (1, 290, 1)),
        Event(0.5, "c0", "committed", (1, 290, 1)),
        Event(0.6, "c0", "committed is", (1, 289, 290, 1)),
    ]
    with pytest.raises(BrokenInvariantError, match="offsets_never_run_backwards"):
        seen.look(events, ())
