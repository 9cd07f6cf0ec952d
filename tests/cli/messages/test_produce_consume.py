"""``tallymark produce`` and ``consume`` against a broker in this process."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result
from commands import run_command

from tallymark.cli.messages import consume, produce
from tallymark.client import Producer
from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark.errors import CODES, UserError
from tallymark.protocol.api import ApiKey
from tallymark.testing.scripted_broker import Refuse, ScriptedBroker

LINES = b"k1:one\nk2:two\r\nthree\n"


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedBroker]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines").write_bytes(LINES)
    with ScriptedBroker({"t": 1, "u": 2}) as running:
        yield running


def produced(broker: ScriptedBroker, *words: str) -> Result:
    where = ("--bootstrap-server", broker.address, "--input", "lines")
    return run_command(produce.command, "t", *words, *where)


def consumed(broker: ScriptedBroker, *words: str) -> Result:
    return run_command(consume.command, *words, "--bootstrap-server", broker.address)


def test_lines_become_messages_and_messages_lines(broker: ScriptedBroker) -> None:
    told = produced(broker, "--key-separator", ":", "--header", "from=here")
    assert "3 messages delivered to t" in told.stderr
    records = broker.log("t").records()
    assert [(r.key, r.value) for r in records] == [
        (b"k1", b"one"),
        (b"k2", b"two"),
        (None, b"three"),
    ]
    assert isinstance(stamp_of(records[0].headers), Stamp)
    plain = consumed(broker, "t", "--from-beginning", "--max-messages", "2")
    assert plain.stdout == "one\ntwo\n"
    assert plain.stderr == "2 messages\n"
    as_json = consumed(broker, "t", "--from-beginning", "--until-end", "--json")
    documents = [json.loads(line) for line in as_json.stdout.splitlines()]
    assert [(d["key"], d["value"], d["offset"]) for d in documents] == [
        ("k1", "one", 0),
        ("k2", "two", 1),
        (None, "three", 2),
    ]
    assert documents[0]["stamp"]["sequence"] == 0
    assert documents[0]["headers"] == [["from", "here"]]


def test_what_is_read_and_shown_is_chosen(broker: ScriptedBroker) -> None:
    with Producer(bootstrap_servers=broker.address, audit=False, stamp=True) as producer:
        for number in range(6):
            value, at = b"%d" % number, 1000 * number
            producer.send("u", value, key=b"k", partition=number % 2, timestamp=at)
    shown = consumed(
        broker, "u", "--partitions", "1", "--offset", "-2", "--until-end", "--show", "offset,key"
    )
    assert shown.stdout == "1\tk\t3\n2\tk\t5\n"
    between = consumed(
        broker,
        "u",
        "--from-time",
        "1970-01-01T00:00:02Z",
        "--to-time",
        "1970-01-01T00:00:04Z",
        "--show",
        "timestamp",
    )
    assert sorted(between.stdout.split("\n")) == ["", "2000\t2", "3000\t3"]
    assert consumed(broker, "--pattern", "[tu]", "--offset", "2", "--until-end").stdout in (
        "4\n5\n",
        "5\n4\n",
    )


def test_counts_as_json_and_a_rate(broker: ScriptedBroker) -> None:
    begun = time.monotonic()
    told = produced(broker, "--json", "--rate", "20", "--partition", "0")
    assert time.monotonic() - begun >= 0.1  # the third message is due 2/20 s after the first
    counts = json.loads(told.stdout)
    assert (counts["topic"], counts["sent"], counts["acknowledged"]) == ("t", 3, 3)


def test_what_is_not_delivered_is_said(broker: ScriptedBroker) -> None:
    broker.script(ApiKey.PRODUCE, Refuse(CODES["INVALID_RECORD"]))
    with pytest.raises(UserError, match="3 of 3 messages were not delivered: t-0: INVALID_RECORD"):
        produced(broker)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["nowhere"], "there is no topic nowhere"),
        ([], "neither TOPIC nor --pattern says what to read"),
        (["t", "--pattern", "u"], "TOPIC and --pattern both say"),
        (["--pattern", "v.*"], "no topic matches 'v.*'"),
        (["--pattern", "("], "is not a regular expression"),
        (["t", "--partitions", "1"], "t has no partition 1; it has 1, from 0 on"),
        (["t", "--from-beginning", "--offset", "1"], "all say where to begin"),
        (["t", "--until-end", "--to-time", "1h"], "both say where to end"),
        # It printed "0 messages", as if there were none.
        (["t", "--from-time", "1h", "--to-time", "2h"], "--to-time is not after --from-time"),
        (["t", "--show", "colour"], "--show 'colour' is not known"),
        (["t", "--zookeeper", "x"], "means nothing without --group"),
        (["t", "--group", "g", "--offset", "1"], "--offset means nothing with --group"),
    ],
)
def test_wrong_usage_is_one_line(broker: ScriptedBroker, words: list[str], reason: str) -> None:
    with pytest.raises(UserError) as raised:
        consumed(broker, *words)
    assert reason in str(raised.value)
    assert "\n" not in str(raised.value)


def test_what_was_deleted_meanwhile_is_said(broker: ScriptedBroker) -> None:
    produced(broker)
    broker.script(ApiKey.FETCH, Refuse(CODES["OFFSET_OUT_OF_RANGE"]))
    with pytest.raises(UserError, match="t-0 ends before offset 0"):
        consumed(broker, "t", "--from-beginning", "--until-end")


def test_what_is_not_committed_can_be_left_out(broker: ScriptedBroker) -> None:
    produced(broker)
    for isolation, level in (("read_uncommitted", 0), ("read_committed", 1)):
        broker.requests.clear()
        consumed(broker, "t", "--from-beginning", "--until-end", "--isolation", isolation)
        asked = [
            message.isolation_level for api, _, message in broker.requests if api is ApiKey.FETCH
        ]
        assert asked
        assert set(asked) == {level}
