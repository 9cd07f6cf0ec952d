"""Certificates of brokers are renewed while they run: those of connections between them, too."""

from __future__ import annotations

import os
import shutil
import signal
from functools import partial
from pathlib import Path

import pytest
from asked_cluster import wait_for
from cluster_members import zookeeper_or_skip
from replicated_cluster import ReplicatedCluster
from security_world import Certificates, make_certificates

from tallymark import Admin, Producer
from tallymark.client.admin.topic_admin import NewTopic

pytestmark = pytest.mark.process
READ_AGAIN = "certificates for connections to brokers read again"
BOTH = {"min.insync.replicas": "2"}


def put(made: Certificates, keystore: Path, truststore: Path) -> None:
    shutil.copy(made.broker, keystore)
    shutil.copy(made.authority, truststore)


def says(cluster: ReplicatedCluster, node_id: int, line: str) -> bool:
    return line in cluster.brokers[node_id].log.read_text()


def test_a_hangup_renews_what_brokers_show_and_trust_when_they_connect(tmp_path: Path) -> None:
    """Brokers moved to another authority, and each got a SIGHUP. Clients were let in by the new
    certificate, but what a broker trusted when it copied from another was that of its start: the
    next broker that was restarted led partitions that no other broker could copy."""
    keystore, truststore = tmp_path / "used.pem", tmp_path / "trusted.pem"
    old, new = (make_certificates(tmp_path / name) for name in ("old", "new"))
    put(old, keystore, truststore)
    with (
        zookeeper_or_skip(tmp_path) as zookeeper,
        ReplicatedCluster(
            tmp_path,
            zookeeper,
            2,
            listeners="PLAINTEXT://127.0.0.1:{port},SSL://127.0.0.1:0",
            security_inter_broker_protocol="SSL",
            ssl_keystore_location=keystore,
            ssl_truststore_location=truststore,
            ssl_client_auth="required",
        ) as cluster,
    ):
        cluster.create("before", 2, min_insync_replicas=2)
        put(new, keystore, truststore)
        for node_id, broker in cluster.brokers.items():
            os.kill(broker.pid, signal.SIGHUP)
            wait_for(partial(says, cluster, node_id, READ_AGAIN), "a renewal")
        cluster.brokers[2].stop()
        cluster.brokers[2].start()
        cluster.wait_until_whole("before")
        with (
            Admin(bootstrap_servers=cluster.addresses) as admin,
            Producer(bootstrap_servers=cluster.addresses, audit=False) as producer,
        ):
            for leader, follower in ((1, 2), (2, 1)):
                name = f"led-by-{leader}"
                topic = NewTopic(name, configs=BOTH, assignment={0: (leader, follower)})
                admin.create_topics([topic]).check()
                assert producer.send(name, b"copied by both").result(60).offset == 0
