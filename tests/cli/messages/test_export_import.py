"""``tallymark export`` and ``import``: what comes back is what was there."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest
from commands import run_command

from tallymark.cli.messages import export, import_file
from tallymark.cli.messages.transfer import exporting, importing
from tallymark.cli.messages.transfer.json_file import JsonWriter
from tallymark.cli.messages.transfer.open_file import reading
from tallymark.cli.messages.transfer.plan import Exported, Plan
from tallymark.client import Producer
from tallymark.errors import CODES, UserError
from tallymark.protocol.api import ApiKey
from tallymark.testing.scripted_broker import Refuse, ScriptedBroker

FORMATS = pytest.mark.parametrize("name", ["t.jsonl", "t.avro"])


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedBroker]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with ScriptedBroker({"t": 2, "empty": 3}) as running:
        with Producer(
            bootstrap_servers=running.address, audit=False, stamp=True, batch_size=300
        ) as sender:
            for number in range(100):
                sender.send(
                    "t",
                    bytes([number, 255]) if number % 5 else None,
                    key=b"k%d" % number if number % 3 else None,
                    partition=number % 2,
                    timestamp=1000 + number,
                    headers=[("h", b"\xff"), ("none", None)] if number % 7 else (),
                )
        yield running


def exported(broker: ScriptedBroker, *words: str, code: int = 0) -> str:
    where = ("--bootstrap-server", broker.address)
    return run_command(export.command, *words, *where, code=code).stdout


def imported(broker: ScriptedBroker, *words: str) -> str:
    return run_command(import_file.command, *words, "--bootstrap-server", broker.address).stdout


def contents(broker: ScriptedBroker, topic: str, partition: int) -> list[Any]:
    return [r[1:] for r in broker.log(topic, partition).records()]


@FORMATS
def test_there_and_back(broker: ScriptedBroker, name: str) -> None:
    assert exported(broker, "t", name).startswith(f"100 records of t in {name}, ")
    told = json.loads(imported(broker, name, "copy", "--json"))
    assert told == {"topic": "copy", "records": 100, "partitions": {"0": 50, "1": 50}}
    for partition in (0, 1):
        assert contents(broker, "copy", partition) == contents(broker, "t", partition)
    assert sorted(path.name for path in Path().iterdir()) == [name]


def test_an_export_does_not_go_to_standard_output(broker: ScriptedBroker) -> None:
    """``tallymark export t - | head`` wrote a file that is called ``-``: other commands mean
    standard output by that."""
    with pytest.raises(UserError, match="an export is a file, not standard output; name a file"):
        exported(broker, "t", "-")
    assert not Path("-").exists()


@FORMATS
def test_a_part_of_an_empty_topic(broker: ScriptedBroker, name: str) -> None:
    told = json.loads(exported(broker, "empty", name, "--partitions", "1", "--json"))
    assert (told["records"], told["partitions"]) == (0, {"1": 0})
    assert "0 records" in imported(broker, name, "other")


def test_other_avro_readers_read_it(broker: ScriptedBroker) -> None:
    exported(broker, "t", "t.avro", "--partitions", "1", "--offset", "10")
    with Path("t.avro").open("rb") as file:
        reader = fastavro.reader(file)
        records: list[Any] = list(reader)
        document = json.loads(reader.metadata["tallymark.export"])
    assert [record["offset"] for record in records] == list(range(10, 50))
    assert document["partitions"] == {"1": [10, 50]}
    assert document["records"] == {"1": 40}


@FORMATS
def test_an_export_that_was_killed_is_gone_on_with(
    broker: ScriptedBroker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies in the middle of writing, at several places; what comes out in the end is the same
    as without that."""
    exported(broker, "t", f"whole-{name}")
    partial = Path(f"{name}.partial")
    with monkeypatch.context() as patch:
        kill_after(patch, 60)
        with pytest.raises(RuntimeError, match="killed"):
            exported(broker, "t", name)
    with pytest.raises(
        UserError, match=r"an earlier export to .* did not end; go on with --resume"
    ):
        exported(broker, "t", name)
    with partial.open("ab") as file:
        file.write(partial.read_bytes()[-37:-1])  # torn
    with monkeypatch.context() as patch:
        kill_after(patch, 20)
        with pytest.raises(RuntimeError, match="killed"):
            exported(broker, "t", name, "--resume")
    exported(broker, "t", name, "--resume")
    with reading(Path(name)) as resumed, reading(Path(f"whole-{name}")) as whole:
        assert sorted(resumed.records(), key=lambda r: r[:2]) == sorted(
            whole.records(), key=lambda r: r[:2]
        )
        assert resumed.totals == whole.totals
        assert whole.totals is not None
        assert whole.totals.counts == {0: 50, 1: 50}


def kill_after(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """The export dies when it has flushed ``count`` records and written another one."""
    written = 0

    class Dying(Exported):
        def __new__(cls, *fields: Any) -> Dying:
            nonlocal written
            written += 1
            if written > count:
                raise RuntimeError("killed")
            return super().__new__(cls, *fields)

    monkeypatch.setattr(exporting, "Exported", Dying)
    monkeypatch.setattr(exporting, "_FLUSH_S", 0)


def test_resume_is_for_the_same_topic(broker: ScriptedBroker) -> None:
    with pytest.raises(UserError, match=r"there is no t\.jsonl\.partial to go on with"):
        exported(broker, "t", "t.jsonl", "--resume")
    plan = Plan("t", "another", "c", 0, {0: (0, 10)})
    with Path("t.jsonl.partial").open("wb") as file:
        JsonWriter(file, plan)
    with pytest.raises(UserError, match="is of another topic: t, id another"):
        exported(broker, "t", "t.jsonl", "--resume")
    Path("u.jsonl").touch()
    with pytest.raises(UserError, match=r"u\.jsonl is there already"):
        exported(broker, "t", "u.jsonl")


@FORMATS
def test_an_import_is_gone_on_with(
    broker: ScriptedBroker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in the middle, it goes on behind what is acknowledged: nothing twice."""
    exported(broker, "t", name)
    monkeypatch.setattr(importing, "_LOOK_EVERY", 10)
    stop = threading.Event()
    monkeypatch.setattr(import_file, "stop_signals", lambda: Stopping(stop))
    looks = 0
    look = importing.Import._look

    def look_and_stop(self: importing.Import) -> None:
        nonlocal looks
        looks += 1
        if looks == 4:
            stop.set()
        look(self)

    monkeypatch.setattr(importing.Import, "_look", look_and_stop)
    with pytest.raises(UserError, match="stopped after 31 records; go on with --resume") as raised:
        imported(broker, name, "copy")
    assert raised.value.exit_code == 130
    stop.clear()
    with pytest.raises(UserError, match="an earlier import of this file did not end"):
        imported(broker, name, "copy")
    imported(broker, name, "copy", "--resume")
    for partition in (0, 1):
        assert contents(broker, "copy", partition) == contents(broker, "t", partition)
    with pytest.raises(UserError, match="to go on with; leave out --resume"):
        imported(broker, name, "copy", "--resume")


class Stopping:
    """Stands for ``stop_signals()``."""

    def __init__(self, event: threading.Event) -> None:
        self._event = event

    def __enter__(self) -> threading.Event:
        return self._event

    def __exit__(self, *_: object) -> None: ...


def test_new_stamps_and_other_partitions(broker: ScriptedBroker) -> None:
    exported(broker, "t", "t.jsonl")
    broker.create("one", 1)
    with pytest.raises(UserError, match="one has 1 partition, the file 2; give --by-key"):
        imported(broker, "t.jsonl", "one")
    imported(broker, "t.jsonl", "one", "--by-key", "--stamp")
    old = [r[4] for p in (0, 1) for r in broker.log("t", p).records()]
    new = [record.headers for record in broker.log("one").records()]
    assert len(new) == 100
    instances = {dict(headers)["tm"][:9] for headers in new}  # type: ignore[index] # all have one
    assert len(instances) == 1
    assert instances.isdisjoint(dict(headers)["tm"][:9] for headers in old)  # type: ignore[index]


def test_what_the_cluster_refuses_ends_it(broker: ScriptedBroker) -> None:
    exported(broker, "t", "t.jsonl")
    broker.script(ApiKey.PRODUCE, Refuse(CODES["INVALID_RECORD"]))
    with pytest.raises(UserError, match=r"records are there, then: .*INVALID_RECORD"):
        imported(broker, "t.jsonl", "copy")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda data: b"", "line 1 is not JSON"),
        (lambda data: b"[]\n", "line 1 is no JSON object"),
        (lambda data: b"{}\n", "does not say what it is an export of"),
        (lambda data: data.replace(b'export":1', b'export":2'), "version is 2, not 1"),
        (lambda data: data[:-3], "did not end"),
        (lambda data: data.replace(b'"offset":7,', b'"offset":x,'), "is not JSON"),
        (lambda data: data.replace(b'"offset":7,', b""), "is no record"),
        (lambda data: data.replace(b'"value":"', b'"value":"!', 1), "is no record"),
        (
            lambda data: data.replace(b'{"0":50', b'{"0":51'),
            "has 50 records, but says that it has 51",
        ),
        (lambda data: data.replace(b'"value":"A', b'"value":"B', 1), "are not those"),
        (lambda data: data.replace(b'"timestamp":1007', b'"timestamp":1008'), "are not those"),
    ],
)
def test_damaged_lines_are_named(broker: ScriptedBroker, damage: Any, reason: str) -> None:
    exported(broker, "t", "t.jsonl")
    Path("t.jsonl").write_bytes(damage(Path("t.jsonl").read_bytes()))
    with pytest.raises(UserError) as raised:
        imported(broker, "t.jsonl", "copy")
    assert reason in str(raised.value)


@FORMATS
def test_nothing_of_a_damaged_file_is_sent(broker: ScriptedBroker, name: str) -> None:
    """One changed byte of an Avro export, or of the base64 of the other, was imported as a record
    that nobody had exported, and every record was told to be acknowledged."""
    exported(broker, "t", name)
    whole = Path(name).read_bytes()
    for at in range(len(whole) // 2, len(whole) - 40, (len(whole) // 2 - 40) // 20):
        Path(name).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(UserError, match="is no whole export"):
            imported(broker, name, "copy")
    assert broker.count(ApiKey.CREATE_TOPICS) == 0
    Path(name).write_bytes(whole)
    imported(broker, name, "copy")


def test_damaged_containers_are_named(broker: ScriptedBroker) -> None:
    exported(broker, "t", "t.avro")
    whole = Path("t.avro").read_bytes()
    for cut, reason in ((8, "no export"), (len(whole) - 20, "is broken")):
        Path("t.avro").write_bytes(whole[:cut])
        with pytest.raises(UserError, match=reason):
            imported(broker, "t.avro", "copy")
        Path("t.avro.copy.importing").unlink(missing_ok=True)
    with pytest.raises(UserError, match="cannot read nothing: No such file"):
        imported(broker, "nothing")
