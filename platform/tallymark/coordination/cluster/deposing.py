"""Ends the term of a controller whose process is gone, before its session ends.

The controller is the one that elects in the place of a suspect, so a suspected controller needs
others. Each broker that hears of a report looks::

    a report of the broker that is the controller, in its present registration
      └─▶ try a connection: not refused ─▶ nothing
                            refused     ─▶ report it, too, where it has not yet
                                           two live brokers have (or one, where there is one beside
                                           the controller) ─▶ remove /controller

The node is removed under the version of ``/controller_epoch``, which each election raises: a newer
controller stays. One that lives and was removed wrongly is fenced by the next one, or elected
again. It costs an election of a controller, once per round of reports.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Final

from tallymark.coordination import paths
from tallymark.coordination.cluster.broker_notes import BrokerNotes
from tallymark.coordination.cluster.brokers import BrokerInfo, BrokerRegistry
from tallymark.coordination.cluster.controller import Controller, ControllerElection
from tallymark.coordination.malformed_nodes import MalformedNodes
from tallymark.coordination.session.errors import BadVersionError, NoNodeError
from tallymark.coordination.session.nodes import Check, Delete
from tallymark.coordination.session.zookeeper import ZooKeeper

log: Final = logging.getLogger(__name__)


class Deposing:
    """The part of the broker of ``election``. Not thread-safe. ``is_refused`` tries a
    connection."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        election: ControllerElection,
        is_refused: Callable[[BrokerInfo], bool],
    ) -> None:
        self._zookeeper = zookeeper
        self._election = election
        self._me = election.broker_id
        self._is_refused = is_refused
        self._notes = BrokerNotes(zookeeper)
        self._registry = BrokerRegistry(zookeeper)
        self._malformed = MalformedNodes()

    def look(self) -> bool:
        """Remove the controller where it is gone. Whether it is reported, so that another look is
        due soon. Raises the session's errors."""
        reported = self._notes.suspects()
        if not reported:
            return False
        epoch = self._zookeeper.find(paths.CONTROLLER_EPOCH)
        controller = self._election.current()
        if epoch is None or controller is None or controller.is_ours:
            return False
        live = self._registry.brokers(malformed=self._malformed)
        suspect = live.get(controller.broker_id)
        if suspect is None or reported.get(suspect.id) != suspect.epoch or suspect.epoch < 0:
            return False
        if self._me in live and self._is_refused(suspect) and self._agreed(suspect, live):
            self._remove(controller, epoch.version)
        return True

    def _agreed(self, suspect: BrokerInfo, live: Mapping[int, BrokerInfo]) -> bool:
        reporters = self._notes.reporters(suspect.id, suspect.epoch) & live.keys()
        if self._me not in reporters:
            self._notes.suspect(suspect.id, suspect.epoch, self._me)
        agreed = (reporters | {self._me}) - {suspect.id}
        return len(agreed) >= min(2, len(live) - 1)

    def _remove(self, controller: Controller, version: int) -> None:
        with contextlib.suppress(BadVersionError, NoNodeError):  # another one was faster
            self._zookeeper.commit(
                [Check(paths.CONTROLLER_EPOCH, version), Delete(paths.CONTROLLER)]
            )
            log.warning(
                "the controller, broker %d, refuses connections: its term is over epoch=%d",
                controller.broker_id,
                controller.epoch,
            )
