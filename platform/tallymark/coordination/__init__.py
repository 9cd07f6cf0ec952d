"""Coordination through ZooKeeper: one module per registry.

Start with :mod:`.paths` (what is where) and :mod:`.zookeeper` (the session). Everything blocks;
the broker calls it from an executor's thread. :mod:`tallymark.processes.zookeeper_server` runs the
server itself.

Importing this loads kazoo: a client that may do without ZooKeeper imports it where it is needed.
"""

from tallymark.coordination.access import Access
from tallymark.coordination.brokers import BrokerInfo, BrokerRegistry, ListenerInfo
from tallymark.coordination.changes import ChangeReader
from tallymark.coordination.configs import TopicConfigs
from tallymark.coordination.consumers import Conflict, ConsumerRegistry, groups
from tallymark.coordination.controller import Controller, ControllerElection
from tallymark.coordination.ephemeral import EphemeralNode
from tallymark.coordination.errors import (
    BadVersionError,
    CoordinationError,
    MalformedNodeError,
    NodeExistsError,
    NodeInUseError,
    NoNodeError,
    NotAuthorizedError,
    NotEmptyError,
    SessionLostError,
)
from tallymark.coordination.nodes import Check, Create, Delete, Node, SetData
from tallymark.coordination.offsets import OffsetRegistry, Position
from tallymark.coordination.producer_ids import next_block
from tallymark.coordination.subscriptions import Subscription
from tallymark.coordination.topic_writer import TopicWriter
from tallymark.coordination.topics import PartitionState, TopicAssignment, TopicRegistry
from tallymark.coordination.watches import Watch
from tallymark.coordination.zookeeper import (
    SessionEvent,
    SessionState,
    ZooKeeper,
    parse_connect,
)

__all__ = [
    "Access",
    "BadVersionError",
    "BrokerInfo",
    "BrokerRegistry",
    "ChangeReader",
    "Check",
    "Conflict",
    "ConsumerRegistry",
    "Controller",
    "ControllerElection",
    "CoordinationError",
    "Create",
    "Delete",
    "EphemeralNode",
    "ListenerInfo",
    "MalformedNodeError",
    "NoNodeError",
    "Node",
    "NodeExistsError",
    "NodeInUseError",
    "NotAuthorizedError",
    "NotEmptyError",
    "OffsetRegistry",
    "PartitionState",
    "Position",
    "SessionEvent",
    "SessionLostError",
    "SessionState",
    "SetData",
    "Subscription",
    "TopicAssignment",
    "TopicConfigs",
    "TopicRegistry",
    "TopicWriter",
    "Watch",
    "ZooKeeper",
    "groups",
    "next_block",
    "parse_connect",
]
