"""The paths of all nodes, below the chroot of a cluster.

::

    /cluster/id                                         identity of the cluster
    /cluster/features                                   levels of features in force
    /brokers/ids/[id]                                   ephemeral: where a live broker listens
    /brokers/topics/[topic]                             topic id, partition -> replica ids
    /brokers/topics/[topic]/partitions/[p]/state        leader, leader epoch, in-sync replicas
    /brokers/epochs                                     its version: how often any broker registered
    /brokers/epochs/[id]                                its version: how often the broker started
    /brokers/leaving/[id]                               ephemeral: a broker that wants to stop
    /brokers/suspects/[id]-[reporter]                   ephemeral: a broker that did not answer
    /brokers/changes/change_[number]                    which topics and partitions have changed
    /controller, /controller_epoch                      the controller (ephemeral), and its epoch
    /config/topics/[topic]                              settings of a topic
    /config/users/[user], /config/clients/[client]      credentials and quotas
    /config/users/[user]/clients/[client]               quotas of a user with a client id
    /config/brokers/[id], /config/groups/[group]        settings changed at run time
    /kafka-acl/[type]/[name]                            access-control lists of a resource
    /kafka-acl-extended/prefixed/[type]/[prefix]        and of all names with the prefix
    /admin/delete_topics/[topic]                        a deletion that was requested
    /producer_ids                                       the last block of producer ids given out
    /consumers/[group]/ids/[consumer]                   ephemeral: a live consumer's subscription
    /consumers/[group]/owners/[topic]/[p]               ephemeral: the owner of the partition
    /consumers/[group]/offsets/[topic]/[p]              next offset to consume
    /consumers/[group]/offsets/[topic]/[p]/epoch        leader epoch of the record before it
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

from tallymark.errors import UserError

CLUSTER_ID: Final = "/cluster/id"
FEATURES: Final = "/cluster/features"
BROKER_IDS: Final = "/brokers/ids"
BROKER_EPOCHS: Final = "/brokers/epochs"
LEAVING: Final = "/brokers/leaving"
SUSPECTS: Final = "/brokers/suspects"
TOPICS: Final = "/brokers/topics"
CHANGES: Final = "/brokers/changes"
DELETED_TOPICS: Final = "/brokers/deleted_topics"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
TOPIC_CONFIGS: Final = "/config/topics"
USERS: Final = "/config/users"
CLIENTS: Final = "/config/clients"
BROKER_CONFIGS: Final = "/config/brokers"
GROUP_CONFIGS: Final = "/config/groups"
ACLS: Final = "/kafka-acl"
PREFIXED_ACLS: Final = "/kafka-acl-extended/prefixed"
DELETE_TOPICS: Final = "/admin/delete_topics"
PRODUCER_IDS: Final = "/producer_ids"
CONSUMERS: Final = "/consumers"


def segment(name: str, what: str) -> str:
    """``name`` as one part of a path; UserError when it cannot be one."""
    if not name or name in (".", "..") or "/" in name or not name.isprintable():
        raise UserError(f"{name!r} cannot be {what}", "use letters, digits, '.', '_' and '-'")
    return name


def encoded(name: str) -> str:
    """Any name as one part of a path: what is not a letter, a digit or one of ``._-~*`` is
    percent-encoded, as Apache Kafka does with the names of users."""
    return "%2E" * len(name) if name in (".", "..") else quote(name, safe="*")


def decoded(part: str) -> str:
    """The reverse of :func:`encoded`."""
    return unquote(part)


def broker(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def broker_epoch(broker_id: int) -> str:
    return f"{BROKER_EPOCHS}/{broker_id}"


def topic(name: str) -> str:
    return f"{TOPICS}/{segment(name, 'a topic')}"


def partitions(name: str) -> str:
    return f"{topic(name)}/partitions"


def partition_state(name: str, partition: int) -> str:
    return f"{partitions(name)}/{partition}/state"


def topic_config(name: str) -> str:
    return f"{TOPIC_CONFIGS}/{segment(name, 'a topic')}"


def delete_topic(name: str) -> str:
    return f"{DELETE_TOPICS}/{segment(name, 'a topic')}"


def group(name: str) -> str:
    return f"{CONSUMERS}/{segment(name, 'a group')}"


def members(group_name: str) -> str:
    return f"{group(group_name)}/ids"


def member(group_name: str, consumer: str) -> str:
    return f"{members(group_name)}/{segment(consumer, 'a consumer')}"


def owner(group_name: str, topic_name: str, partition: int) -> str:
    return f"{group(group_name)}/owners/{segment(topic_name, 'a topic')}/{partition}"


def offset(group_name: str, topic_name: str, partition: int) -> str:
    return f"{group(group_name)}/offsets/{segment(topic_name, 'a topic')}/{partition}"


def offset_epoch(group_name: str, topic_name: str, partition: int) -> str:
    return f"{offset(group_name, topic_name, partition)}/epoch"
