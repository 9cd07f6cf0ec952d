"""A broker's own node among the live ones, and the order in which it comes to be.

In one session, and anew in every later one::

    read  /brokers/epochs/[id]      version v; made where it is missing
    look  /brokers/ids/[id]         another process has it: stop here, its epoch stays as it is
    read  /cluster/features         refused where this release does not support a level in force
    write /brokers/epochs/[id]      v ──▶ v+1, by compare-and-set: what the process before sends
                                    counts no more
    give up                         leads, and votes of logs that are not intact
    write /brokers/epochs/[id]      v+1 ──▶ v+2  ┐ one transaction; v+2 is the epoch in force until
    check /cluster/features                      │ the next registration
    write /brokers/epochs           raises its   │
                                    version      │
    create /brokers/ids/[id]        epoch v+2    ┘

The version of ``/brokers/epochs`` counts registrations: a decision about all live brokers checks it
(:mod:`.raising`). The second write of the epoch makes two processes under one id exclude each
other: of all that read version v, one writes v+1; the one that looked before the other registered
can raise nothing after it. So a process that was started with a wrong id never takes the epoch of
the broker that lives.

An attempt may end anywhere. The next one begins at the first line; a step of the earlier attempt
that is executed late finds another version and changes nothing. If the answer to the last step is
lost, the node of this session with the version of the epoch node shows that it was done.

``/brokers/epochs/[id]`` is persistent: ``{"version":1,"run":"..."}``, the run as in the other node.
Its version is the broker's epoch (KIP-380). Fields that this release does not know stay in it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Final

from tallymark.coordination import paths
from tallymark.coordination.cluster.feature_levels import read_features, write_features
from tallymark.coordination.session import documents
from tallymark.coordination.session.ephemeral import EphemeralNode
from tallymark.coordination.session.errors import (
    BadVersionError,
    MalformedNodeError,
    NodeExistsError,
    NoNodeError,
)
from tallymark.coordination.session.nodes import Check, Create, Node, SetData
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.errors import ClosedError, UserError
from tallymark.replication.features import Finalized, Supported, refusal

LOG: Final = logging.getLogger("tallymark.coordination")

_ATTEMPTS: Final = 50
_PAUSE_SECONDS: Final = 0.1


class BrokerNode(EphemeralNode):
    """``content(epoch)`` is what the node holds; ``give_up(epoch, features)`` gives up what this
    broker may not claim any more, in transactions that check ``epoch``; it may run several times.
    ``registered(epoch)`` is called after each registration. ``epoch`` is the broker's epoch while
    it is registered, -1 before."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        broker_id: int,
        run: str,
        supported: Supported,
        content: Callable[[int], bytes],
        is_ours: Callable[[bytes], bool],
        give_up: Callable[[int, Finalized], None],
        registered: Callable[[int], None] = lambda epoch: None,
    ) -> None:
        super().__init__(zookeeper, paths.broker(broker_id), b"", is_ours)
        self.epoch = -1
        self._broker_id = broker_id
        self._epoch_path = paths.broker_epoch(broker_id)
        self._run = run
        self._supported = supported
        self._content = content
        self._give_up = give_up
        self._registered = registered
        self._reported = -1

    def _establish(self) -> None:
        super()._establish()
        if self.epoch != self._reported and not self._released.is_set():
            self._reported = self.epoch
            self._registered(self.epoch)

    def _create(self, session: int) -> None:
        for _ in range(_ATTEMPTS):
            try:
                return self._register(session)
            except NoNodeError:  # removed by another program
                self._zookeeper.ensure(paths.BROKER_IDS)
            except BadVersionError as error:
                LOG.info("broker %d registers again: %s", self._broker_id, error)
                if self._released.wait(_PAUSE_SECONDS):
                    raise ClosedError(f"{self.path}: released meanwhile") from None
        raise UserError(
            f"broker {self._broker_id} cannot register in {self._zookeeper.connect}"
            f"{self._zookeeper.chroot}: its nodes change all the time",
            "give each broker an id of its own",
        )

    def _register(self, session: int) -> None:
        """NodeExistsError: the node is there; NoNodeError: its parent is not. BadVersionError: a
        node has changed since it was read."""
        known = self._epoch_node()
        session = session or self._zookeeper.session
        if self._zookeeper.exists(self.path):
            raise NodeExistsError(self.path)
        features = self._features()
        content = self._with_run(known.data)
        raised = self._zookeeper.write(self._epoch_path, content, known.version)
        self._give_up(raised, features)
        self._zookeeper.commit(
            [
                SetData(self._epoch_path, content, raised),
                Check(paths.FEATURES, features.epoch),
                SetData(paths.BROKER_EPOCHS, b""),
                Create(self.path, self._content(raised + 1), ephemeral=True),
            ],
            session,
        )
        self.epoch = raised + 1

    def _adopt(self, node: Node) -> bool:
        """The answer to the last step was lost. A node that is not as that step makes it was
        changed by another program: it is made anew."""
        known = self._epoch_node().version
        if node.data == self._content(known):
            self.epoch = known
            return True
        with contextlib.suppress(BadVersionError):
            self._zookeeper.delete(self.path, node.version)
        return False

    def _epoch_node(self) -> Node:
        """Made where it is missing."""
        while True:
            node = self._zookeeper.find(self._epoch_path)
            if node is not None:
                return node
            self._zookeeper.ensure(paths.BROKER_IDS)
            with contextlib.suppress(NodeExistsError):
                self._zookeeper.create(self._epoch_path, self._with_run(b"{}"), parents=True)

    def _with_run(self, content: bytes) -> bytes:
        """The epoch node's next content: what is not JSON is replaced, since only its version
        counts."""
        try:
            others = documents.load(self._epoch_path, content)
        except MalformedNodeError:
            others = {}
        return documents.dump({**others, "version": 1, "run": self._run})

    def _features(self) -> Finalized:
        """The levels in force. UserError where this release does not support them. The node is made
        where it is missing: only a node that is there can be checked."""
        found = read_features(self._zookeeper)
        while found.epoch < 0:
            with contextlib.suppress(NodeExistsError):
                write_features(self._zookeeper, Finalized())
            found = read_features(self._zookeeper)
        why = refusal(self._supported, found)
        if why is not None:
            what, _, hint = why.partition(": ")
            raise UserError(f"broker {self._broker_id} may not join: {what}", hint)
        return found
