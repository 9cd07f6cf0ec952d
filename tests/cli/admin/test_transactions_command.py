"""``tallymark transactions`` against our broker and Apache Kafka, with a transaction that hangs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from broker_kinds import KINDS, AnyBroker, either_broker, new_topic
from commands import run_command
from eventually import eventually
from hung import hang, lose_what_coordinators_know, open_transaction
from left_open import leave_open
from project import ROOT

from tallymark.cli.admin import groups
from tallymark.cli.admin.transactions.command import command
from tallymark.client import Admin, Producer
from tallymark.errors import CODES, UserError
from tallymark.protocol import messages as m
from tallymark.protocol.topic_partition import OFFSETS_TOPIC
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.reading import read_topic
from tallymark.testing.wire import WireClient


@pytest.fixture(scope="module", params=KINDS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AnyBroker]:
    folder = tmp_path_factory.mktemp("transactions")
    yield from either_broker(request, folder, transaction_state_log_num_partitions=2)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TALLYMARK_SETTINGS", raising=False)
    monkeypatch.chdir(tmp_path)


def run(broker: AnyBroker, *words: str, code: int = 0) -> str:
    """What ``tallymark transactions WORDS`` prints, standard error included."""
    servers = broker.bootstrap_servers
    return run_command(command, *words, "--bootstrap-server", servers, code=code).output


def rows(broker: AnyBroker, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(broker, *words, "--json"))
    return found


def topic_of(broker: AnyBroker, *values: bytes) -> str:
    """A new topic with these committed messages."""
    topic = new_topic("transacted")
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic(topic)
    with Producer(bootstrap_servers=broker.bootstrap_servers, audit=False) as producer:
        for value in values:
            producer.send(topic, value)
    return topic


def committed(broker: AnyBroker, topic: str) -> list[bytes]:
    """What a reader of committed messages gets."""
    found = read_topic(broker.bootstrap_servers, topic, isolation="read_committed")
    return [bytes(each.value or b"") for each in found]


def test_a_hanging_transaction_is_found_and_aborted_and_readers_go_on(broker: AnyBroker) -> None:
    topic = topic_of(broker, b"before")
    hung = hang(broker, topic, b"lost", b"lost")
    with Producer(bootstrap_servers=broker.bootstrap_servers, audit=False) as producer:
        producer.send(topic, b"behind")
    assert committed(broker, topic) == [b"before"]

    (found,) = rows(broker, "find-hanging", topic)
    assert found["verdict"] == "hanging"
    assert found["why"] == "no transactional id has this producer id"
    assert found["producer id"] == hung.producer_id
    assert found["first offset"] == hung.start_offset
    (told,) = (each for each in rows(broker, "producers", topic) if each["first offset"])
    assert told["producer id"] == hung.producer_id

    asked = ("abort", topic, "--partition", "0", "--start-offset", str(hung.start_offset))
    with pytest.raises(UserError, match="has to be confirmed"):
        run(broker, *asked)
    said = run(broker, *asked, "--dry-run")
    assert f"would abort the transaction of producer {hung.producer_id} in {topic}-0" in said
    assert "readers of committed messages stand at 1, 3 before the end" in said
    assert committed(broker, topic) == [b"before"]

    said = run(broker, *asked, "--yes")
    assert f"{topic}-0: aborted; committed readers get to 5, which is the end" in said
    assert committed(broker, topic) == [b"before", b"behind"]
    assert rows(broker, "find-hanging", topic) == []
    assert "nothing hangs; open transactions: in 0 of 1" in run(broker, "find-hanging", topic)
    with pytest.raises(UserError, match="no such transaction is open"):
        run(broker, *asked, "--yes")


def test_what_operations_says_of_a_consumer_that_stands_still_is_what_helps(
    broker: AnyBroker,
) -> None:
    """docs/operations.md, command after command."""
    page = (ROOT / "docs/operations.md").read_text().partition("### A consumer stands still")[2]
    lines = page.partition("```\n")[2].partition("```")[0].splitlines()
    topic = topic_of(broker)
    hung = hang(broker, topic, b"lost")
    here = {"orders": topic, "1234": str(hung.start_offset)}
    said = [
        run(broker, *(here.get(word) or word for word in line.split()[2:]), *extra)
        for line, extra in zip(lines, ((), (), ("--yes",)), strict=True)
    ]
    assert f"{topic}\t0\t{hung.start_offset}\t{hung.producer_id}" in said[0]
    assert f"{topic}\t0\t{hung.producer_id}" in said[1]
    assert "which is the end" in said[2]


def test_a_group_whose_offsets_hang_goes_on_when_that_is_aborted(broker: AnyBroker) -> None:
    """Its members do not begin: their offsets are pending for ever. In a partition of the cluster's
    own topic."""
    if not isinstance(broker, BrokerThread):
        pytest.skip("only ours loses what its coordinators know")
    topic = topic_of(broker, b"before")
    leave_open(broker.bootstrap_servers, f"lost-{topic}", topic, {(topic, 0): 1})
    lose_what_coordinators_know(broker)
    eventually(lambda: stored(broker, topic)[0] == CODES["UNSTABLE_OFFSET_COMMIT"])
    (found,) = rows(broker, "find-hanging", OFFSETS_TOPIC)
    at = ("-p", str(found["partition"]), "--start-offset", str(found["first offset"]))
    run(broker, "abort", OFFSETS_TOPIC, *at, "--yes")
    assert stored(broker, topic) == (0, -1)


def stored(broker: AnyBroker, topic: str) -> tuple[int, int]:
    """The error of the answer, and the offset of the group ``g``, as its members ask for it."""
    asked = m.OffsetFetchRequestTopic(name=topic, partition_indexes=[0])
    group = m.OffsetFetchRequestGroup("g", topics=[asked])
    with WireClient(broker.bootstrap_servers) as wire:
        answer = wire.ask(m.OffsetFetchRequest(groups=[group], require_stable=True), 8).groups[0]
    if answer.error_code:  # the coordinator loads
        return answer.error_code, -1
    (part,) = answer.topics[0].partitions
    return part.error_code, part.committed_offset


def test_a_running_transaction_does_not_hang_and_is_aborted_with_force_only(
    broker: AnyBroker,
) -> None:
    topic = topic_of(broker)
    name = f"runs-{topic}"
    running = open_transaction(broker, topic, name, b"open")
    assert rows(broker, "find-hanging", topic) == []
    (found,) = rows(broker, "find-hanging", topic, "--all")
    assert (found["verdict"], found["transactional id"]) == ("running", name)

    (listed,) = rows(broker, "list", "--state", "Ongoing", "--producer-id", str(running[0]))
    assert (listed["transactional id"], listed["state"]) == (name, "Ongoing")
    assert rows(broker, "list", "--open-for", "1d", "--producer-id", str(running[0])) == []
    (described,) = rows(broker, "describe", name)
    assert (described["partition"], described["there"]) == (f"{topic}-0", "open")
    assert described["first offset"] == running.start_offset
    assert name in run(broker, "describe", name)

    asked = ("abort", topic, "-p", "0", "--producer-id", str(running.producer_id))
    with pytest.raises(UserError, match="is not known to hang: its coordinator has it open"):
        run(broker, *asked, "--yes")
    assert f"{topic}-0: aborted" in run(broker, *asked, "--yes", "--force")
    assert rows(broker, "find-hanging", topic, "--all") == []


def test_the_lag_of_a_group_is_told_to_where_a_committed_reader_gets(broker: AnyBroker) -> None:
    """Its lag never fell to 0 below an open transaction, and nothing said why."""
    topic = topic_of(broker, b"a", b"b")
    open_transaction(broker, topic, f"open-{topic}", b"c", b"d", b"e")
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.alter_group_offsets(f"group-{topic}", {(topic, 0): 1}).check()
        (found,) = admin.group_lag(f"group-{topic}")
    assert (found.lag, found.committed_lag, found.behind_open) == (4, 1, 3)
    words = ("describe", f"group-{topic}", "--bootstrap-server", broker.bootstrap_servers)
    told = run_command(groups.command, *words).output.splitlines()
    assert told[1].endswith("COMMITTED-LAG\tBEHIND-OPEN-TRANSACTION")
    assert told[2].endswith("\t1\t3")


def test_ids_are_listed_by_a_pattern(broker: AnyBroker) -> None:
    topic = topic_of(broker)
    names = [f"{topic}-{kind}-{number}" for kind in ("a", "b") for number in (1, 2)]
    for name in names:
        open_transaction(broker, topic, name, b"x")
    found = rows(broker, "list", "--pattern", f"{topic}-(a|c)-[0-9]+")
    assert [each["transactional id"] for each in found] == names[:2]
    assert rows(broker, "list", "--pattern", topic) == []
    assert "INVALID_REGULAR_EXPRESSION" in run(broker, "list", "--pattern", "(", code=1)


def test_what_people_ask_for_wrongly_is_told(broker: AnyBroker) -> None:
    topic = topic_of(broker)
    with pytest.raises(UserError, match="no transaction is ever in the state 'Onging'"):
        run(broker, "list", "--state", "Onging")
    with pytest.raises(UserError, match="'soon' is no time; give 90s"):
        run(broker, "list", "--open-for", "soon")
    with pytest.raises(UserError, match="there is no transactional id unused-"):
        run(broker, "describe", f"unused-{topic}")
    with pytest.raises(UserError, match="give one of --start-offset and --producer-id"):
        run(broker, "abort", topic, "-p", "0")
    with pytest.raises(UserError, match="none is open there"):
        run(broker, "abort", topic, "-p", "0", "--start-offset", "3")
    for words in (("producers",), ("abort", "-p", "0", "--start-offset", "3")):
        with pytest.raises(UserError, match="there is no topic missing-"):
            run(broker, *words, f"missing-{topic}")
    with pytest.raises(UserError, match="has no partition 7"):
        run(broker, "abort", topic, "-p", "7", "--start-offset", "3")
    with pytest.raises(UserError, match="there is no broker 99"):
        run(broker, "find-hanging", "--broker", "99")
