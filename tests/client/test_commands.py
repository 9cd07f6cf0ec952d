"""``tallymark topics``, ``produce`` and ``consume`` against a broker in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tallymark.cli import consume, produce, topics
from tallymark.client.stamps import Stamp, stamp_of
from tallymark.errors import CODES, UserError
from tallymark.protocol.api import ApiKey
from tallymark.testing.scripted_broker import Refuse, ScriptedBroker

LINES = b"k1:one\nk2:two\r\nthree\n"


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedBroker]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with ScriptedBroker({"t": 1}) as running:
        yield running


def run(broker: ScriptedBroker, command: object, *words: str, stdin: bytes = b"") -> Result:
    result = CliRunner().invoke(
        command,  # type: ignore[arg-type] # one of three commands
        [*words, "--bootstrap-server", broker.address],
        input=stdin,
    )
    if isinstance(result.exception, UserError):
        raise result.exception
    assert result.exception is None, result.exception
    return result


def test_topics(broker: ScriptedBroker) -> None:
    created = run(broker, topics.command, "create", "new", "--partitions", "2")
    assert created.output == "new: created\n"
    assert run(broker, topics.command, "create", "new").output == "new: was there\n"
    assert run(broker, topics.command, "list").output == "new\t2\nt\t1\n"
    described = run(broker, topics.command, "describe", "new").output.splitlines()
    assert described[0].startswith("new\tid ")
    assert described[2] == "1\tleader 0\tepoch 0\toffsets 0 to 0"
    assert run(broker, topics.command, "delete", "new").output == "new: deleted\n"
    for word in ("delete", "describe"):
        with pytest.raises(UserError, match="there is no topic new"):
            run(broker, topics.command, word, "new")
    with pytest.raises(UserError, match="is not KEY=VALUE"):
        run(broker, topics.command, "create", "x", "--config", "nonsense")


def test_lines_become_messages_and_messages_lines(broker: ScriptedBroker) -> None:
    told = run(broker, produce.command, "t", "--key-separator", ":", stdin=LINES)
    assert "3 messages delivered to t" in told.stderr
    records = broker.log("t").records()
    assert [(r.key, r.value) for r in records] == [
        (b"k1", b"one"),
        (b"k2", b"two"),
        (None, b"three"),
    ]
    assert isinstance(stamp_of(records[0].headers), Stamp)
    plain = run(broker, consume.command, "t", "--from-beginning", "--max-messages", "3")
    assert plain.output == "one\ntwo\nthree\n"
    as_json = run(broker, consume.command, "t", "--from-beginning", "--max-messages", "1", "--json")
    document = json.loads(as_json.output)
    assert (document["key"], document["value"], document["offset"]) == ("k1", "one", 0)
    assert document["stamp"]["sequence"] == 0
    assert document["headers"] == []


def test_what_is_not_delivered_is_said(broker: ScriptedBroker) -> None:
    broker.script(ApiKey.PRODUCE, Refuse(CODES["INVALID_RECORD"]))
    with pytest.raises(UserError, match="3 of 3 messages were not delivered: t-0: INVALID_RECORD"):
        run(broker, produce.command, "t", stdin=LINES)


def test_a_topic_that_is_not_there(broker: ScriptedBroker) -> None:
    with pytest.raises(UserError, match="there is no topic nowhere"):
        run(broker, consume.command, "nowhere")


def test_the_cluster_is_named_in_one_way(broker: ScriptedBroker) -> None:
    with pytest.raises(UserError, match="both say where the cluster is"):
        run(broker, topics.command, "list", "--cluster", "dc1")
    result = CliRunner().invoke(topics.command, ["list", "--cluster", "dc9"])
    assert isinstance(result.exception, UserError)
    assert "there is no cluster 'dc9'" in str(result.exception)
