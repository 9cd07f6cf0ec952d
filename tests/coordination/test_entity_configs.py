"""Settings of users, clients, brokers and groups in Apache Kafka's layout below ``/config``."""

from __future__ import annotations

import json
import threading

import pytest

from tallymark.coordination import ZooKeeper, paths
from tallymark.coordination.security.users import EntityConfigs


def content(zookeeper: ZooKeeper, path: str) -> object:
    return json.loads(zookeeper.read(path).data)


@pytest.mark.parametrize("folder", [paths.BROKER_CONFIGS, paths.GROUP_CONFIGS])
def test_settings_stand_where_kafka_has_them(zookeeper: ZooKeeper, folder: str) -> None:
    kept = EntityConfigs(zookeeper, folder)
    assert kept.read() == {}
    heard = threading.Event()
    watch = kept.watch(heard.set)
    kept.alter("<default>", {"log.retention.ms": "5"})
    kept.alter("0", {"message.max.bytes": "9", "log.retention.ms": "7"})
    kept.alter("0", {"message.max.bytes": None})
    assert content(zookeeper, f"{folder}/0") == {"version": 1, "config": {"log.retention.ms": "7"}}
    assert kept.read() == {"<default>": {"log.retention.ms": "5"}, "0": {"log.retention.ms": "7"}}
    assert heard.wait(30)
    watch.cancel()
    kept.alter("0", {"log.retention.ms": None})
    assert not zookeeper.exists(f"{folder}/0")


def test_quotas_of_a_user_with_a_client_stand_below_the_user(zookeeper: ZooKeeper) -> None:
    """The user's node may have settings of its own or none, and goes last."""
    kept = EntityConfigs(zookeeper, paths.USERS)
    kept.alter_pair("an/n", "<default>", {"producer_byte_rate": "1"})
    kept.alter_pair("<default>", "app", {"producer_byte_rate": "2"})
    kept.alter("an/n", {"producer_byte_rate": "3"})
    assert kept.read_pairs() == {
        ("an/n", "<default>"): {"producer_byte_rate": "1"},
        ("<default>", "app"): {"producer_byte_rate": "2"},
    }
    assert zookeeper.exists("/config/users/an%2Fn/clients/<default>")
    kept.alter("an/n", {"producer_byte_rate": None})
    assert ("an/n", "<default>") in kept.read_pairs(), "the user goes, its clients stay"
    assert not kept.read()["an/n"]
    kept.alter_pair("an/n", "<default>", {"producer_byte_rate": None})
    assert list(kept.read_pairs()) == [("<default>", "app")]
