"""Users and access-control lists in ZooKeeper, by the command line and by other people's admin
clients, in force on every broker of the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import KafkaException, NewTopic
from eventually import eventually
from security_world import PASSWORD, log_in

from tallymark.cli.main import command
from tallymark.coordination import CoordinationError, ZooKeeper
from tallymark.coordination.session.access import PASSWORD_VARIABLE, USER_VARIABLE, Access
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient
from tallymark.testing.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.process


ANYBODY: Any = None


class World:
    """A ZooKeeper and two brokers that ask for log-ins and permissions."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.zookeeper = stack.enter_context(ZooKeeperServer(folder)).connect + "/secured"
        self.cli("users", "add", "root", "--password-file", "-", input=PASSWORD)
        self.cli("users", "add", "ann", "--password-file", "-", input=PASSWORD)
        self.brokers = [
            stack.enter_context(
                BrokerThread(
                    folder / f"broker-{n}",
                    node_id=n,
                    enable_zookeeper=True,
                    zookeeper_connect=self.zookeeper,
                    listeners="SASL_PLAINTEXT://127.0.0.1:0",
                    sasl_enabled_mechanisms="SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
                    authorizer_enable=True,
                    super_users="User:root",
                    zookeeper_user="brokers",
                    zookeeper_password="kept",
                )
            )
            for n in range(2)
        ]
        with self.admin() as admin:
            made = admin.create_topics([NewTopic("clicks", 2), NewTopic("secret", 2)])
            for future in made.values():
                future.result(15)

    @property
    def servers(self) -> list[str]:
        return [str(each.broker.address) for each in self.brokers if each.broker is not None]

    def cli(self, *arguments: str, input: str | None = None) -> str:
        result = CliRunner().invoke(
            command,
            [*arguments, "--zookeeper", self.zookeeper],
            input=input,
            env={USER_VARIABLE: "brokers", PASSWORD_VARIABLE: "kept"},
        )
        assert result.exit_code == 0, result.output + str(result.exception)
        return result.output

    def config(self, user: str, password: str = PASSWORD) -> dict[str, Any]:
        return {
            "bootstrap.servers": ",".join(self.servers),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password,
        }

    def admin(self, user: str = "root") -> Any:
        return AdminClient(self.config(user))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(tmp_path_factory.mktemp("world"), stack)


def produced(world: World, user: str, topic: str) -> KafkaError | None:
    answers: list[KafkaError | None] = []
    producer = Producer({**world.config(user), "message.timeout.ms": 10_000})
    producer.produce(topic, b"x", on_delivery=lambda error, _: answers.append(error))
    producer.flush(15)
    producer.close()
    return answers[0]


def consumed(world: World, user: str, topic: str) -> KafkaError | None:
    """The first error of a consumer of all of a topic, or None once it read something."""
    consumer = Consumer({**world.config(user), "group.id": "readers"})
    try:
        consumer.assign([TopicPartition(topic, n, 0) for n in range(2)])
        message = consumer.poll(10)
        assert message is not None
        return message.error()
    finally:
        consumer.close()


def can_log_in(address: str, user: str, password: str) -> bool:
    with WireClient(address) as client:
        return log_in(client, user, password) == 0


def two_found(admin: Any, wanted: AclBindingFilter) -> bool:
    return len(admin.describe_acls(wanted).result(30)) == 2


def binding(
    name: str,
    operation: AclOperation,
    kind: ResourceType = ResourceType.TOPIC,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
) -> AclBinding:
    return AclBinding(kind, name, pattern, "User:ann", "*", operation, AclPermissionType.ALLOW)


def test_acls_by_an_admin_client_are_in_force_on_every_broker(world: World) -> None:
    denied = produced(world, "ann", "clicks")
    assert denied is not None
    assert denied.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    wanted = [
        binding("cli", AclOperation.WRITE, pattern=ResourcePatternType.PREFIXED),
        binding("cli", AclOperation.READ, pattern=ResourcePatternType.PREFIXED),
        binding("readers", AclOperation.READ, ResourceType.GROUP),
    ]
    with world.admin() as admin:
        for future in admin.create_acls(wanted).values():
            future.result(30)
        matching = AclBindingFilter(
            ResourceType.TOPIC,
            "clicks",
            ResourcePatternType.MATCH,
            ANYBODY,
            ANYBODY,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        assert set(admin.describe_acls(matching).result(30)) == set(wanted[:2])
        for address in world.servers:  # each has heard of it, whoever was asked
            with AdminClient({**world.config("root"), "bootstrap.servers": address}) as one:
                eventually(partial(two_found, one, matching))
        assert produced(world, "ann", "clicks") is None
        assert consumed(world, "ann", "clicks") is None
        described = binding("secret", AclOperation.DESCRIBE)  # may look, not read
        for future in admin.create_acls([described]).values():
            future.result(30)
        secret = consumed(world, "ann", "secret")
        assert secret is not None
        assert secret.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        (removed,) = admin.delete_acls([matching]).values()
        assert set(removed.result(30)) == set(wanted[:2])
        assert admin.describe_acls(matching).result(30) == []
    with world.admin("ann") as ann:
        (future,) = ann.create_acls(wanted[:1]).values()
        with pytest.raises(KafkaException) as raised:
            future.result(30)
    assert raised.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED


def test_acls_by_the_command_line(world: World) -> None:
    entry = ("--allow", "User:ann", "--operation", "write", "--topic", "secret")
    out = world.cli("acls", "add", *entry)
    assert out == "Allow\tUser:ann\tfrom *\tWrite\tTopic:secret\tLiteral\n"
    assert out in world.cli("acls", "list", "--topic", "secret")
    eventually(lambda: produced(world, "ann", "secret") is None)
    deny = ("--deny", "User:ann", "--operation", "all", "--topic", "*", "--host", "127.0.0.1")
    world.cli("acls", "add", *deny)
    eventually(lambda: produced(world, "ann", "secret") is not None)
    world.cli("acls", "remove", "--topic", "*")
    world.cli("acls", "remove", "--principal", "User:ann", "--topic", "secret")
    assert "secret" not in world.cli("acls", "list")


def test_the_layout_is_kafkas(world: World) -> None:
    world.cli("acls", "add", "--allow", "User:bob", "--operation", "read", "--group", "a/b")
    with ZooKeeper(world.zookeeper, access=Access("brokers", "kept")).start() as zookeeper:
        acl = zookeeper.read("/kafka-acl/Group/a%2Fb").data
        user = zookeeper.read("/config/users/ann").data
    assert acl == (
        b'{"version":1,"acls":[{"principal":"User:bob","permissionType":"Allow",'
        b'"operation":"Read","host":"*"}]}'
    )
    assert user.startswith(b'{"version":1,"config":{"SCRAM-SHA-256":"salt=')
    assert PASSWORD.encode() not in user
    world.cli("acls", "remove", "--group", "a/b")


def test_users_by_the_command_line(world: World) -> None:
    assert "bob: added" in world.cli("users", "add", "bob", "--password-file", "-", input="one\n")
    for address in world.servers:
        eventually(partial(can_log_in, address, "bob", "one"))
    world.cli("users", "add", "bob", "--password-file", "-", "--iterations", "8192", input="two")
    eventually(lambda: not can_log_in(world.servers[0], "bob", "one"))
    assert can_log_in(world.servers[0], "bob", "two")
    assert "bob\tSCRAM-SHA-256 8192 iterations" in world.cli("users", "list")
    world.cli("users", "remove", "bob")
    eventually(lambda: not can_log_in(world.servers[1], "bob", "two"))


def test_users_by_an_admin_client(world: World) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 5000)
    with world.admin() as admin:
        add = UserScramCredentialUpsertion("eve", info, b"pw")
        for future in admin.alter_user_scram_credentials([add]).values():
            future.result(30)
        eventually(lambda: all(can_log_in(a, "eve", "pw") for a in world.servers))
        described = admin.describe_user_scram_credentials(["eve"])["eve"].result(30)
        assert [(i.mechanism, i.iterations) for i in described.scram_credential_infos] == [
            (ScramMechanism.SCRAM_SHA_512, 5000)
        ]
        gone = UserScramCredentialDeletion("eve", ScramMechanism.SCRAM_SHA_512)
        for future in admin.alter_user_scram_credentials([gone]).values():
            future.result(30)
        eventually(lambda: not can_log_in(world.servers[0], "eve", "pw"))
        weak = UserScramCredentialUpsertion(
            "eve", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 20), b"pw"
        )
        for future in admin.alter_user_scram_credentials([weak]).values():
            with pytest.raises(KafkaException, match="20 iterations"):
                future.result(30)


def test_users_are_closed_to_others_where_zookeeper_has_credentials(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = world.zookeeper.replace("/secured", "/closed")
    monkeypatch.setenv(USER_VARIABLE, "brokers")
    monkeypatch.setenv(PASSWORD_VARIABLE, "zk-secret")
    arguments = ["users", "add", "bob", "--password-file", "-", "--zookeeper", place]
    assert CliRunner().invoke(command, arguments, input="pw").exit_code == 0
    listed = CliRunner().invoke(command, ["users", "list", "--zookeeper", place])
    assert listed.output.startswith("bob\t")
    monkeypatch.delenv(USER_VARIABLE)
    with (
        ZooKeeper(place).start() as stranger,
        pytest.raises(CoordinationError, match="does not let us"),
    ):
        stranger.read("/config/users/bob")
