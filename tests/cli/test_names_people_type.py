"""What people type who know Kafka's tools or kcat, and what they are told.

Somebody came from kcat and typed ``tallymark consume -b localhost:9092 -t clicks -o -3 -e -f
'%k %s'``: no such option, five times. ``tallymark topic list`` was no such command, ``tpoics``
neither, and nothing said which ones there are.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from commands import elsewhere as elsewhere
from commands import run_command
from rich.table import Table

from tallymark.cli.admin.cluster import find_wrong
from tallymark.cli.main import command as root
from tallymark.cli.messages.reading.avro_hint import AvroHint, looks_framed
from tallymark.cli.messages.reading.formats import parse_format
from tallymark.cli.messages.reading.records import Shown
from tallymark.cli.stack.doctor import command as doctor
from tallymark.client import Producer
from tallymark.client.admin.cluster import BrokerDescription, ClusterDescription, LogDir
from tallymark.client.admin.results import Results
from tallymark.client.admin.topics import PartitionDescription, TopicDescription
from tallymark.deployment import Deployment
from tallymark.errors import CODES, KafkaError, UserError
from tallymark.shell import output
from tallymark.shell.positions import parse_offset, parse_time
from tallymark.shell.target import clusters_named
from tallymark.testing import MemoryBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[MemoryBroker]:
    with MemoryBroker() as running:
        yield running


def typed(*words: str, given: bytes = b"", code: int = 0) -> Result:
    """``tallymark WORDS``, with a file that holds ``given`` for ``--input``."""
    if given:
        Path("given").write_bytes(given)
        words = (*words, "--input", "given")
    result = CliRunner().invoke(root, list(words))
    if isinstance(result.exception, UserError):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def test_kcats_letters(broker: MemoryBroker) -> None:
    where = ("-b", broker.bootstrap_servers)
    typed("topics", "create", "-t", "letters", "-p", "2", *where)
    typed("produce", "-t", "letters", "-k", "k1", "-p", "1", *where, given=b"a\nb\nc\nd\n")
    told = typed("consume", "-t", "letters", "-o", "-3", "-e", "-f", r"%k %p %o %s\n", *where)
    assert told.stdout == "k1 1 1 b\nk1 1 2 c\nk1 1 3 d\n"
    first = typed("consume", *where, "letters", "-o", "beginning", "-p", "1", "-n", "1")
    assert first.stdout == "a\n"
    late = typed("consume", *where, "letters", "-o", "s@1h", "-e", "-f", "%K:%S:%t ")
    assert late.stdout == "2:1:letters " * 4
    keyed = typed("produce", "letters", "-K", ":", "-k", "other", *where, given=b"x:1\n2\n")
    assert "2 messages delivered" in keyed.stderr
    both = typed("consume", "letters", *where, "-o", "beginning", "-e", "-f", r"%k=%s\n").stdout
    assert {"x=1", "other=2"} <= set(both.splitlines())


def test_groups_by_letter(broker: MemoryBroker) -> None:
    where = ("-b", broker.bootstrap_servers)
    typed("produce", "-t", "grouped", *where, given=b"a\n")
    read = typed("consume", "grouped", "-g", "readers", "--from-beginning", "-n", "1", *where)
    assert read.stdout == "a\n"
    listed = typed("group", "list", *where).stdout.splitlines()
    assert listed[0] == "GROUP\tTYPE\tPROTOCOL\tSTATE\tKEPT\tCOORDINATOR"
    assert any(line.lower().startswith("readers\tclassic\tconsumer") for line in listed)
    for words in (("readers",), ("-g", "readers")):
        told = typed("groups", "describe", *words, *where).stdout
        assert "CURRENT-OFFSET\tLOG-END-OFFSET\tLAG\tCONSUMER-ID\tHOST\tCLIENT-ID" in told
    members = typed("groups", "describe", "readers", "--members", *where).stdout
    assert "GROUP\tCONSUMER-ID\tHOST\tCLIENT-ID\tGROUP-INSTANCE-ID\tASSIGNMENT" in members


@pytest.mark.parametrize("name", ["topic", "group", "user", "acl", "offset", "quota", "log-dir"])
def test_singular_names_are_commands(name: str) -> None:
    assert f"{name}s" in typed(name, "--help").stdout


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["tpoics"], "Did you mean topics?"),
        (["reconsile"], "Did you mean reconcile"),
        (["topics", "lst"], "Did you mean list?"),
        (["audit", "overvew"], "Did you mean overview?"),
        (["stop"], "Did you mean down?"),
        (["start"], "Did you mean up?"),
        (["xyzzy"], "No such command 'xyzzy'."),
    ],
)
def test_what_was_meant_by_a_misspelt_name(words: list[str], meant: str) -> None:
    told = typed(*words, code=2).stderr
    assert meant in told
    assert "Did you mean" in told or words == ["xyzzy"]


def test_a_topic_is_named_once() -> None:
    assert "Missing argument 'TOPIC', or option '-t'" in typed("produce", code=2).stderr
    assert "give one of them" in typed("produce", "a", "-t", "b", code=2).stderr
    assert "Missing argument 'TOPIC'" in typed("topics", "describe", code=2).stderr


MESSAGE = Shown("t", 3, 41, 1_700_000_000_000, b"k", b"value", [("a", b"1"), ("b", None)])


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (r"%t/%p/%o %T %k=%s\n", b"t/3/41 1700000000000 k=value\n"),
        (r"%K %S %h%%\t\x41\\", b"1 5 a=1,b=NULL%\tA\\"),
        ("plain", b"plain"),
        ("", b""),
    ],
)
def test_formats_are_kcats(text: str, printed: bytes) -> None:
    assert parse_format(text)(MESSAGE) == printed
    absent = MESSAGE._replace(key=None, value=None)
    assert parse_format("%k%s %K %S")(absent) == b" -1 -1"


@pytest.mark.parametrize("text", ["%q", "100%"])
def test_a_format_that_is_none(text: str) -> None:
    with pytest.raises(UserError, match="is not known"):
        parse_format(text)


def test_headers_and_bytes_go_through_a_pipe(broker: MemoryBroker) -> None:
    """``consume --show headers | produce`` lost them: what one printed the other did not read."""
    where = ("-b", broker.bootstrap_servers)
    sent = [
        (b"k", b'{"n": 1}', (("trace", b"ab,12:x"), ("none", None))),
        (None, b"\xff\x00", (("raw", b"\xfe"),)),
        (b"gone", None, ()),
    ]
    with Producer(bootstrap_servers=broker.bootstrap_servers, audit=False) as producer:
        for key, value, headers in sent:
            producer.send("piped", value, key=key, headers=headers, partition=0)
    ask = ("-o", "beginning", "-e", *where)
    lines = typed("consume", "piped", "--json", *ask).stdout_bytes
    typed("produce", "copied", "--format", "json", *where, given=lines)
    again = typed("consume", "copied", "--json", *ask).stdout.splitlines()
    kept = ("key", "value", "headers")
    assert [[json.loads(one)[n] for n in kept] for one in again] == [
        [json.loads(one)[n] for n in kept] for one in lines.splitlines()
    ]
    first = typed("consume", "piped", "--show", "headers,key", "-n", "1", *ask).stdout_bytes
    separated = ("--header-separator", r"\t", "-K", r"\t")
    typed("produce", "tabbed", *separated, *where, given=first)
    (line,) = typed("consume", "tabbed", "--json", *ask).stdout.splitlines()
    assert json.loads(line)["headers"] == [["trace", "ab,12:x"], ["none", None]]
    with pytest.raises(UserError, match=r"line 1 .* no object with a value"):
        typed("produce", "copied", "-f", "json", *where, given=b"[]\n")
    with pytest.raises(UserError, match="--key-separator means nothing"):
        typed("produce", "copied", "-f", "json", "-K", ":", *where, given=b"{}\n")


def test_avro_is_hinted_at_once(broker: MemoryBroker, capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody took what a topic of Avro events printed for damage."""
    where = ("-b", broker.bootstrap_servers)
    with Producer(bootstrap_servers=broker.bootstrap_servers, audit=False) as producer:
        for _ in range(3):
            producer.send("framed", b"\0\0\0\0\x07\x02hi", partition=0)
    told = typed("consume", "framed", "-o", "beginning", "-e", *where).stderr
    assert told.count("look like Avro of a schema registry (schema 7); --avro") == 1
    AvroHint(wanted=False).look_at(MESSAGE._replace(value=b"\0\0\0\0\x07\x02hi"))
    assert "look like" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "framed"),
    [(b"\0\0\0\0\1x", True), (b"\0\0\0\0\0x", False), (b"\0\0\0\0\1", False), (b"text..", False)],
)
def test_what_looks_like_avro(value: bytes, framed: bool) -> None:
    assert looks_framed(value) is framed


def test_quotas_of_users_clients_both_and_defaults(broker: MemoryBroker) -> None:
    """There was no command for quotas; only Kafka's own tool could set them."""
    where = ("-b", broker.bootstrap_servers)
    typed("quotas", "set", "--user", "alice", "--producer", "1000", "--consumer", "2000", *where)
    many = typed("quotas", "set", "--client-id", "x", "--producer", "1000000", *where)
    assert "producer_byte_rate=1000000" in many.output, "it said 1e+06"
    typed("quotas", "remove", "--client-id", "x", *where)
    typed("quotas", "set", "--client-id", "loader", "--consumer", "500.5", *where)
    typed("quotas", "set", "--user-default", "--producer", "10", *where)
    typed("quotas", "set", "--user", "alice", "--client-id", "loader", "--producer", "7", *where)
    rows = json.loads(typed("quota", "list", "--json", *where).stdout)
    assert {(row["user"], row["client id"]) for row in rows} == {
        ("alice", None), (None, "loader"), ("<default>", None), ("alice", "loader")
    }  # fmt: skip
    (both,) = json.loads(
        typed("quotas", "list", "--user", "alice", "--client-id", "loader", "--json", *where).stdout
    )
    assert both["producer_byte_rate"] == 7
    lines = typed("quotas", "list", *where).stdout.splitlines()
    assert lines[0].startswith("USER\tCLIENT-ID\tCONSUMER_BYTE_RATE\tPRODUCER_BYTE_RATE")
    assert any(line.startswith("-\tloader\t500.5\t-") for line in lines)
    typed("quotas", "remove", "--user", "alice", *where)
    with pytest.raises(UserError, match="there are no quotas of user alice"):
        typed("quotas", "remove", "--user", "alice", *where)
    assert "alice" in typed("quotas", "list", *where).stdout  # with the client id
    for words, said in (
        (("set", "--producer", "1"), "whose quota"),
        (("set", "--user", "a"), "which quota"),
        (("set", "--user", "a", "--user-default", "--producer", "1"), "give one of them"),
    ):
        with pytest.raises(UserError, match=said):
            typed("quotas", *words, *where)


def test_cluster_health(broker: MemoryBroker) -> None:
    where = ("-b", broker.bootstrap_servers)
    typed("topics", "create", "well", *where)
    assert typed("cluster", "health", *where).stdout.startswith("all is well: 1 broker, ")
    assert json.loads(typed("cluster", "health", "--json", *where).stdout) == []
    assert "CONTROLLER" in typed("cluster", *where).stdout


def test_what_is_not_well_is_named() -> None:
    brokers = (BrokerDescription(0, "a", 9092), BrokerDescription(1, "b", 9092, fenced=True))
    parts = (
        PartitionDescription(0, -1, 3, (0, 1), (0,)),
        PartitionDescription(1, 0, 3, (0, 1), (0,)),
        PartitionDescription(2, 0, 3, (0,), (0,)),
    )
    described: Results[str, TopicDescription] = Results(
        {"t": TopicDescription("t", uuid.uuid4(), False, parts)}, {}
    )
    disks: Results[int, tuple[LogDir, ...]] = Results(
        {0: (LogDir("/d", 1000, 10), LogDir("/e", 1000, 900))},
        {1: KafkaError(CODES["BROKER_NOT_AVAILABLE"], "broker 1")},
    )
    rows = find_wrong(ClusterDescription("c", 7, brokers), described, disks)
    assert [(row["what"], row["where"]) for row in rows] == [
        ("controller", "-"),
        ("broker", "1 b:9092"),
        ("partition", "t-0"),
        ("partition", "t-1"),
        ("broker", "1"),
        ("disk", "/d of broker 0"),
    ]


def test_doctor_as_json() -> None:
    told = run_command(doctor, "--reach", "registry", "--json", code=1)
    (finding,) = json.loads(told.stdout)
    assert (finding["grade"], finding["what"]) == ("failure", "reach")


def test_clusters_are_named_by_their_address_too() -> None:
    deployment = Deployment()
    assert clusters_named(deployment, ["dc2"], ["127.0.0.1:9092"]) == ("dc2", "dc1")
    with pytest.raises(UserError, match="no cluster of the settings is at other:1; there are: dc1"):
        clusters_named(deployment, [], ["other:1"])


def test_times_are_relative_or_absolute() -> None:
    now = 1_700_000_000_000
    assert parse_time("5m", now).value == now - 300_000
    assert parse_offset("s@1700000000000").value == now
    with pytest.raises(UserError):
        parse_time("5 minutes", now)


def test_words_of_a_table_are_never_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a terminal of 60 columns ``audit verdicts`` printed 2026-11-22T1…."""
    table = Table("window", "topic", "claimed", "why", box=None)
    time = "2026-11-22T17:30:00Z"
    table.add_row(
        time, "a-topic-with-a-long-name", "123456789", "the mirror has not copied them yet"
    )
    for width in (100, 60, 40, 20):
        monkeypatch.setattr(output, "FILE_WIDTH", width)
        output.print_table(table)
        printed = capsys.readouterr().out
        words = printed.split()
        for word in (time, "a-topic-with-a-long-name", "123456789", "mirror", "copied", "window"):
            assert word in words, (width, printed)


def test_a_sentence_is_not_broken_after_each_word(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reasons of `tallymark audit verdicts` took twelve lines of a word each: the other columns
    alone were as wide as the terminal."""
    table = Table("window", "topic", "why", box=None)
    why = "skewed: the clock of vm is ahead by 59 min 59 s; judged by when it was written"
    table.add_row("2026-11-29T20:12:35Z", "a-topic-with-a-long-name", why)
    monkeypatch.setattr(output, "FILE_WIDTH", 50)
    output.print_table(table)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert "skewed: the clock of vm is ahead by" in lines[1]


def test_completion_offers_what_a_singular_name_has() -> None:
    from click.shell_completion import ZshComplete

    asked = ZshComplete(root, {}, "tallymark", "X")
    offered = [item.value for item in asked.get_completions(["topic"], "")]
    assert {"list", "describe"} <= set(offered)
    assert "--bootstrap-server" in [
        one.value for one in asked.get_completions(["quota", "list"], "--")
    ]
