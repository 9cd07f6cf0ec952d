"""What happens to a transactional producer: another one takes its id, and its coordinator is killed
between the decision to commit or abort and the markers, where that can be seen in time."""

from __future__ import annotations

import time
from typing import Final

from tallymark.client import Admin
from tallymark.clock import now_ms
from tallymark.errors import TallymarkError
from tallymark_audit.proof.drill.faults.ground_truth import FaultNote, GroundTruthWriter
from tallymark_audit.proof.drill.planning.plan import PlannedAction, Sender
from tallymark_audit.proof.drill.planning.topology import SideTopic, broker_of
from tallymark_audit.proof.drill.running.actions import TRANSACTIONAL_ID, Actions
from tallymark_audit.proof.drill.running.processes import wait_until
from tallymark_audit.proof.drill.running.stage import Stage

_WAIT_SECONDS: Final = 90.0
_LOOK_SECONDS: Final = 5.0
"""How long a moment between decision and markers is waited for."""
_DECIDED: Final = ("PrepareCommit", "PrepareAbort")


class TransactionActions:
    """See the module."""

    def __init__(self, stage: Stage, ground_truth: GroundTruthWriter, actions: Actions) -> None:
        self._stage = stage
        self._processes = stage.processes
        self._ground_truth = ground_truth
        self._actions = actions

    def do(self, action: PlannedAction, topic: SideTopic) -> None:
        """Both, in this order. UserError: the drill cannot go on."""
        sender = Sender(f"{topic.name}-hijacker", topic.home, 0, topic.name, topic.partitions)
        name = self._actions.send(sender)
        self._processes.wait_ready(name)
        self._stage.narrator.say(f"{name} takes the transactional id of the one before")
        node, state = self._decided(topic.home)
        broker = broker_of(topic.home, node)
        self._processes.kill(broker)
        self._ground_truth.write([FaultNote(now_ms(), action.kind, topic.home, topic.name)])
        self._stage.narrator.say(f"{broker} coordinates a transaction in {state} and is killed")
        self._processes.start(broker)
        self._processes.wait_ready(broker)

    def _decided(self, cluster: str) -> tuple[int, str]:
        """The coordinator, and the state of the transaction: decided, if that was seen in time."""
        found = [(-1, "")]
        with Admin(bootstrap_servers=self._stage.topology.straight(cluster)) as admin:

            def is_known() -> bool:
                try:
                    known = admin.describe_transactions([TRANSACTIONAL_ID]).check()
                except TallymarkError:
                    return False
                one = known[TRANSACTIONAL_ID]
                found[0] = (one.coordinator, one.state)
                return True

            why = f"no coordinator of {TRANSACTIONAL_ID} on {cluster}"
            wait_until(is_known, _WAIT_SECONDS, why, self._processes)
            end = time.monotonic() + _LOOK_SECONDS
            while found[0][1] not in _DECIDED and time.monotonic() < end:
                is_known()
        return found[0]
