"""Coordination through ZooKeeper: sessions, and one module per registry.

Start with :mod:`.paths` (what is where) and :mod:`tallymark.coordination.session.zookeeper` (the
session). Everything blocks; the broker calls it from an executor's thread.
:mod:`tallymark.processes.zookeeper_server` runs the server itself.

Importing this loads kazoo, so a client that does not always need ZooKeeper imports it late.
"""

from tallymark.coordination.cluster.brokers import BrokerInfo, BrokerRegistry, ListenerInfo
from tallymark.coordination.cluster.controller import Controller, ControllerElection
from tallymark.coordination.cluster.producer_ids import next_block
from tallymark.coordination.consumers.offsets import OffsetRegistry, Position
from tallymark.coordination.consumers.registry import Conflict, ConsumerRegistry, groups
from tallymark.coordination.consumers.subscriptions import Subscription
from tallymark.coordination.session.access import Access
from tallymark.coordination.session.ephemeral import EphemeralNode
from tallymark.coordination.session.errors import (
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
from tallymark.coordination.session.nodes import Check, Create, Delete, Node, SetData
from tallymark.coordination.session.states import SessionEvent, SessionState, parse_connect
from tallymark.coordination.session.watches import Watch
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.coordination.topics.changes import ChangeReader
from tallymark.coordination.topics.configs import TopicConfigs
from tallymark.coordination.topics.registry import TopicAssignment, TopicRegistry
from tallymark.coordination.topics.writer import TopicWriter

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
