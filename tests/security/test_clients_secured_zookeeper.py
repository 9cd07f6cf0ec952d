"""Clients that find their brokers in ZooKeeper go to the listener that speaks as they do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from security_world import PASSWORD, Certificates

from tallymark.cli.main import command
from tallymark.client import Admin, ConsumerConnector, Producer
from tallymark.errors import UserError
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.process


def test_a_group_in_zookeeper_reads_by_tls_with_a_log_in(
    tmp_path: Path, certificates: Certificates
) -> None:
    with ZooKeeperServer(tmp_path) as server:
        connect = server.connect + "/secured"
        words = ("users", "add", "ann", "--password-file", "-", "--zookeeper", connect)
        assert CliRunner().invoke(command, words, input=PASSWORD).output == "ann: added\n"
        with BrokerThread(
            tmp_path,
            enable_zookeeper=True,
            zookeeper_connect=connect,
            listeners="PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
            ssl_keystore_location=str(certificates.broker),
            sasl_enabled_mechanisms="SCRAM-SHA-256",
        ) as broker:
            given: dict[str, Any] = {
                "zookeeper_connect": connect,
                "security_protocol": "SASL_SSL",
                "ssl_truststore_location": certificates.authority,
                "sasl_mechanism": "SCRAM-SHA-256",
                "sasl_username": "ann",
                "sasl_password": PASSWORD,
            }
            with Producer(audit=False, **given) as producer:
                for number in range(5):
                    producer.send("t", b"%d" % number)
            with ConsumerConnector(group="g", **given) as connector:
                (stream,) = connector.create_message_streams({"t": 1})["t"]
                assert [next(stream).value for _ in range(5)] == [b"%d" % n for n in range(5)]
            assert broker.broker is not None
            secured = str(broker.broker.listeners.servers["SASL_SSL"].address)
            with Admin(**given) as admin:
                assert admin.brokers() == {0: secured}
            with (
                Admin(zookeeper_connect=connect, security_protocol="SSL") as admin,
                pytest.raises(UserError, match=r"no broker .* has a listener with SSL; .*SASL_SSL"),
            ):
                admin.brokers()
