"""Who changed what, from where, and with which result: the trail of administrators."""

from __future__ import annotations

import json
import os
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner
from eventually import eventually
from security_world import PASSWORD, add_users

from tallymark.broker.trail import trail as broker_trail
from tallymark.broker.trail.entries import TRAILED, changes
from tallymark.cli.main import command
from tallymark.client import Admin, Producer, SimpleConsumer
from tallymark.client.admin.topic_admin import NewTopic
from tallymark.errors import KafkaError, TallymarkError
from tallymark.protocol.api import ADVERTISED, ApiKey
from tallymark.protocol.messages import (
    ElectLeadersRequest,
    ElectLeadersRequestTopic,
    ElectLeadersResponse,
    ElectLeadersResponsePartition,
    ElectLeadersResponseTopic,
)
from tallymark.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from tallymark.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequestPartition as AskedPartition,
)
from tallymark.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequestTopic as AskedTopic,
)
from tallymark.testing.broker_thread import BrokerThread
from tallymark.trail import COMMANDS_FILE_NAME, FILE_NAME, Entry, TrailFile

CHANGES: Final = (
    *("CREATE_", "DELETE_", "ALTER_", "INCREMENTAL_", "OFFSET_DELETE", "UPDATE_"),
    "ELECT_",
)
HARMLESS: Final = {"ALTER_REPLICA_LOG_DIRS"}
"""Is always refused: there is nothing to move."""


def test_every_api_that_changes_something_is_on_record() -> None:
    """A new API that creates, alters or deletes has to have its lines."""
    names = {key.name for key in ADVERTISED if key.name.startswith(CHANGES)}
    assert names - HARMLESS == {key.name for key in TRAILED}


def test_a_move_of_replicas_says_where_they_are_and_where_they_go() -> None:
    request = AlterPartitionReassignmentsRequest(
        topics=[
            AskedTopic(
                name="t",
                partitions=[
                    AskedPartition(partition_index=0, replicas=[2, 3]),
                    AskedPartition(partition_index=1, replicas=None),
                ],
            )
        ]
    )
    refused = AlterPartitionReassignmentsResponse(error_code=41, error_message="not the controller")
    before = {("partition", "t-0"): {"replicas": [1, 2]}}
    first, second = changes(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request, refused, before)
    assert (first.name, first.before, first.after) == (
        "t-0",
        {"replicas": [1, 2]},
        {"replicas": [2, 3]},
    )
    assert (second.name, second.after) == ("t-1", {"move": "cancelled"})
    assert first.code == second.code == 41


def test_an_election_says_who_led_before_and_what_became_of_it() -> None:
    request = ElectLeadersRequest(
        election_type=1,
        topic_partitions=[ElectLeadersRequestTopic(topic="t", partitions=[0, 1])],
    )
    refused = ElectLeadersResponsePartition(partition_id=1, error_code=84, error_message="it leads")
    answer = ElectLeadersResponse(
        replica_election_results=[
            ElectLeadersResponseTopic(
                topic="t",
                partition_result=[ElectLeadersResponsePartition(partition_id=0), refused],
            )
        ]
    )
    before = {("partition", "t-0"): {"leader": -1}}
    first, second = changes(ApiKey.ELECT_LEADERS, request, answer, before)
    assert (first.name, first.before, first.after, first.code) == (
        "t-0",
        {"leader": -1},
        {"election": "unclean"},
        0,
    )
    assert (second.name, second.code, second.message) == ("t-1", 84, "it leads")
    everything = ElectLeadersRequest(election_type=0, topic_partitions=None)
    (one,) = changes(ApiKey.ELECT_LEADERS, everything, ElectLeadersResponse(), {})
    assert (one.name, one.after) == ("(all)", {"election": "preferred"})


def lines_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def broker(folder: Path) -> Iterator[BrokerThread]:
    add_users(folder / "broker", "ann", "bob")
    with BrokerThread(
        folder,
        listeners="SASL_PLAINTEXT://127.0.0.1:0",
        authorizer_enable=True,
        super_users="User:ann",
        admin_trail_topic="_admin_trail",
    ) as running:
        yield running


def admin(broker: BrokerThread, user: str = "ann") -> Admin:
    return Admin(client_id="the-admin", **known(broker, user))


def known(broker: BrokerThread, user: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_username": user,
        "sasl_password": PASSWORD,
    }


def newest(folder: Path, action: str, name: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = []

    def there() -> bool:
        path = folder / "broker" / FILE_NAME
        if path.exists():
            found[:] = [
                line
                for line in lines_in(path)
                if line["action"] == action and line["resource"]["name"] == name
            ]
        return bool(found)

    eventually(there)
    return found[-1]


def test_topics_with_before_and_after(broker: BrokerThread, folder: Path) -> None:
    """Somebody deleted a topic of a colleague's, and the logs said that it was deleted, not by
    whom."""
    with admin(broker) as ann:
        ann.create_topic("clicks", 2, {"retention.ms": "1000"})
        ann.create_partitions({"clicks": 3}).check()
        ann.alter_configs({("topic", "clicks"): {"retention.ms": "2000"}}).check()
        ann.delete_topics(["clicks"]).check()
    made = newest(folder, "CREATE_TOPICS", "clicks")
    assert made["at"].endswith("Z")
    assert made["process"] == "broker-0"
    assert (made["who"], made["host"], made["client"]) == ("User:ann", "127.0.0.1", "the-admin")
    assert made["resource"] == {"type": "topic", "name": "clicks"}
    assert made["before"] is None
    assert made["after"] == {"partitions": 2, "configs": {"retention.ms": "1000"}}
    assert (made["result"], made["message"]) == ("NONE", None)
    grown = newest(folder, "CREATE_PARTITIONS", "clicks")
    assert (grown["before"]["partitions"], grown["after"]["partitions"]) == (2, 3)
    altered = newest(folder, "INCREMENTAL_ALTER_CONFIGS", "clicks")
    assert altered["before"] == {"retention.ms": "1000"}
    assert altered["after"] == {"set": {"retention.ms": "2000"}}
    deleted = newest(folder, "DELETE_TOPICS", "clicks")
    assert deleted["before"] == {"partitions": 3, "configs": {"retention.ms": "2000"}}
    assert deleted["after"] is None


def test_what_was_refused_is_there_too(broker: BrokerThread, folder: Path) -> None:
    with admin(broker, "bob") as bob, pytest.raises(KafkaError):
        bob.create_topic("forbidden", 1)
    line = newest(folder, "CREATE_TOPICS", "forbidden")
    assert line["who"] == "User:bob"
    assert line["result"] == "TOPIC_AUTHORIZATION_FAILED"
    with admin(broker) as ann:
        with pytest.raises(TallymarkError):
            ann.delete_topics(["never"]).check()
        ann.create_topics([NewTopic("tried", 1)], validate_only=True).check()
        ann.create_topic("there", 1)
    missing = newest(folder, "DELETE_TOPICS", "never")
    assert missing["result"] == "UNKNOWN_TOPIC_OR_PARTITION"
    newest(folder, "CREATE_TOPICS", "there")
    assert "tried" not in (folder / "broker" / FILE_NAME).read_text()


def test_users_lists_and_records_without_a_secret(broker: BrokerThread, folder: Path) -> None:
    options = ["--bootstrap-server", broker.bootstrap_servers, "--command-config"]
    config = folder / "client.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f"sasl.username=ann\nsasl.password={PASSWORD}\n"
    )

    def run(*arguments: str, input: str | None = None) -> None:
        result = CliRunner().invoke(command, [*arguments, *options, str(config)], input=input)
        assert result.exit_code == 0, result.output

    run("users", "add", "carol", "--password-file", "-", input="hush-hush\n")
    run("users", "remove", "carol")
    run(
        "acls",
        "add",
        "--allow",
        "User:bob",
        "--operation",
        "read",
        "--topic",
        "click",
        "--prefixed",
    )
    run("acls", "remove", "--principal", "User:bob")
    gone = newest(folder, "ALTER_USER_SCRAM_CREDENTIALS", "carol")
    assert gone["before"]["SCRAM-SHA-512"] == {"iterations": 4096}
    assert set(gone["after"].values()) == {None}
    entry = {
        "principal": "User:bob",
        "host": "*",
        "operation": "Read",
        "permission": "Allow",
        "pattern": "prefixed",
    }
    assert newest(folder, "CREATE_ACLS", "click")["after"] == entry
    assert newest(folder, "DELETE_ACLS", "click")["before"] == entry
    with admin(broker) as ann, Producer(audit=False, **known(broker, "ann")) as producer:
        ann.create_topic("records", 1)
        for _ in range(3):
            producer.send("records", b"x").result(30)
        ann.delete_records({("records", 0): 2}).check()
    deleted = newest(folder, "DELETE_RECORDS", "records-0")
    assert (deleted["before"], deleted["after"]) == ({"start_offset": 0}, {"start_offset": 2})
    text = (folder / "broker" / FILE_NAME).read_text()
    for secret in ("hush-hush", PASSWORD, "stored_key", "salt"):
        assert secret not in text


def test_the_topic_has_the_same_lines(broker: BrokerThread, folder: Path) -> None:
    with admin(broker) as ann, SimpleConsumer(**known(broker, "ann")) as consumer:
        ann.create_topic("seen-in-the-topic", 1)
        newest(folder, "CREATE_TOPICS", "seen-in-the-topic")

        def values() -> list[bytes]:
            try:
                return [
                    bytes(r.value or b"") for r in consumer.fetch("_admin_trail", 0, 0).records()
                ]
            except KafkaError:
                return []

        eventually(lambda: any(b"seen-in-the-topic" in each for each in values()))
        in_file = (folder / "broker" / FILE_NAME).read_bytes().splitlines()
        assert values() == in_file[: len(values())]


def test_nobody_else_reads_it(broker: BrokerThread, folder: Path) -> None:
    path = folder / "broker" / FILE_NAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_commands_that_ask_no_broker_write_it_themselves(tmp_path: Path) -> None:
    """Users and lists were written straight into the data folder, past every broker."""
    options = ["--data", str(tmp_path)]
    runner = CliRunner()
    added = ["users", "add", "eve", "--password-file", "-", *options]
    assert runner.invoke(command, added, input="hush-hush").exit_code == 0
    allowed = ["acls", "add", "--allow", "User:eve", "--operation", "all", "--topic", "*", *options]
    assert runner.invoke(command, allowed).exit_code == 0
    path = tmp_path / COMMANDS_FILE_NAME
    user, acl = lines_in(path)
    assert user["who"].startswith("os-user:")
    assert (user["action"], user["resource"]["name"]) == ("ALTER_USER_SCRAM_CREDENTIALS", "eve")
    assert (acl["action"], acl["after"]["principal"]) == ("CREATE_ACLS", "User:eve")
    assert "hush-hush" not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def entry(number: int, text: str = "x") -> bytes:
    return Entry(number, "p", "w", "h", None, "A", "t", text).line()


def test_a_file_that_is_full_makes_room_and_loses_no_line(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    file = TrailFile(path, 1000, 3)
    for number in range(20):
        file.write([entry(number)])
    kept = [path, *(Path(f"{path}.{n}") for n in (1, 2, 3))]
    assert all(each.stat().st_size <= 1000 for each in kept)
    assert not Path(f"{path}.4").exists()
    newest_first = [line["at"] for each in kept for line in reversed(lines_in(each))]
    assert newest_first == sorted(newest_first, reverse=True)


def test_several_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"

    def write(first: int) -> None:
        for number in range(50):
            TrailFile(path, 5_000, 100).write([entry(first + number, str(first + number))])

    threads = [threading.Thread(target=write, args=(n * 50,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = [line["resource"]["name"] for each in tmp_path.iterdir() for line in lines_in(each)]
    assert sorted(map(int, names)) == list(range(200))


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    """Somebody who may write to the folder put a link there: lines would have gone into a file of
    the broker's user elsewhere."""
    victim = tmp_path / "victim"
    victim.write_text("")
    (tmp_path / "t.jsonl").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        TrailFile(tmp_path / "t.jsonl").write([entry(1)])
    assert victim.read_text() == ""


def test_what_a_stranger_names_cannot_forge_or_fill_a_line() -> None:
    line = entry(1, 'a"}\n{"who":"User:admin"}' + "\u202e" + "z" * 100_000)
    assert line.count(b"\n") == 1
    assert line.isascii()
    assert len(line) < 3_000
    wide = Entry(1, "p", "w", "h", None, "A", "t", "n", after={str(n): n for n in range(10_000)})
    assert len(wide.line()) < 5_000


def test_a_disk_that_hangs_holds_up_no_request_and_what_is_lost_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk of the trail hung: requests go on, lines wait up to a bound, what is beyond it is
    counted and told in /metrics."""
    monkeypatch.setattr(broker_trail, "MAX_WAITING", 5)
    go_on = threading.Event()
    write = TrailFile.write

    def hang(self: TrailFile, lines: Any) -> None:
        go_on.wait(60)
        write(self, lines)

    monkeypatch.setattr(TrailFile, "write", hang)
    with (
        BrokerThread(tmp_path) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as client,
    ):
        try:
            for number in range(20):
                client.create_topic(f"t{number}", 1)
            assert broker.broker is not None
            trail = broker.broker.trail
            assert trail is not None
            counts = trail.counts
            assert counts.dropped["file"] >= 20 - 5 - broker_trail._BATCH
            assert counts.dropped["file"] + trail._lines.qsize() <= 20
            assert counts.dropped["file"] > 0
        finally:
            go_on.set()
        eventually(lambda: counts.written["file"] + counts.dropped["file"] == 20)


def test_a_file_that_cannot_be_written_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    missing = tmp_path / "missing" / "trail.jsonl"
    with (
        BrokerThread(tmp_path / "data", admin_trail_file=str(missing)) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as client,
    ):
        client.create_topic("t", 1)
        eventually(lambda: "lines of the admin trail are lost" in caplog.text)
        assert "No such file" in caplog.text
        missing.parent.mkdir()
        client.create_topic("u", 1)
        eventually(missing.exists)
        eventually(lambda: [each["resource"]["name"] for each in lines_in(missing)] == ["u"])


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    with (
        BrokerThread(tmp_path, admin_trail_file="none") as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as client,
    ):
        client.create_topic("t", 1)
        time.sleep(0.2)
    assert FILE_NAME not in os.listdir(tmp_path / "broker")
