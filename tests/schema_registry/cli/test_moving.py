"""``tallymark schema export`` and ``import``, between files, registries and topics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import run_command
from memory_registry import MemoryRegistry, exported, version
from registry_over_http import serving

from tallymark.client import Producer
from tallymark.errors import KafkaError, UserError
from tallymark.testing import MemoryBroker
from tallymark_schema_registry.cli import command as schema
from tallymark_schema_registry.transfer.snapshot import Snapshot


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REGISTRY", "REGISTRY_USER", "REGISTRY_TOKEN", "SOURCE_USER", "SOURCE_TOKEN"):
        monkeypatch.delenv(f"TALLYMARK_{name}", raising=False)
    monkeypatch.chdir(tmp_path)


def filled() -> MemoryRegistry:
    server = MemoryRegistry()
    for one in (
        version("s/1", 1),
        version("s/3", 2, deleted=True),
        version(":.c:t/1", 1, '{"a": 1}', kind="JSON"),
    ):
        server.held.add(one)
    server.held.configs["s"] = {"compatibilityLevel": "FULL"}
    server.held.modes["s"] = "READONLY"
    return server


def loaded(words: Any) -> Any:
    return json.loads(words.stdout)


def test_a_backup_and_back() -> None:
    with serving(filled()) as source:
        told = run_command(schema, "export", "all.jsonl", "--registry", source).stdout
    counted = "3 versions (1 softly deleted) of 2 subjects in 2 contexts"
    assert told == f"{counted} in all.jsonl\n"
    assert Path("all.jsonl").read_bytes() == exported(filled().held)
    server = MemoryRegistry()
    with serving(server) as target:
        where = ("--registry", target)
        planned = run_command(schema, "import", "all.jsonl", "--dry-run", *where).stdout
        assert "0 were there, to be registered 3, to be deleted 1; to be set 1 levels" in planned
        assert server.held.versions == {}
        told = run_command(schema, "import", "all.jsonl", *where).stdout
        assert f"{counted} in the source: 0 were there, registered 3, deleted 1; set 1" in told
        assert told.endswith(
            "verified: all of it is there, with the same ids, numbers and schemas\n"
        )
        assert server.held == filled().held
        again = loaded(run_command(schema, "import", "all.jsonl", "--json", *where))
        assert (again["there"], again["registered"], again["verified"]) == (3, 0, True)
        run_command(schema, "export", "-", "--registry", target)
        run_command(schema, "export", "again.jsonl", "--registry", target)
    assert Path("again.jsonl").read_bytes() == Path("all.jsonl").read_bytes()
    assert not Path("again.jsonl.partial").exists()


def test_from_another_registry_with_a_login_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets come by the environment or by files: each user of a machine can read command
    lines."""
    Path("token").write_text("there\n")
    monkeypatch.setenv("TALLYMARK_REGISTRY_TOKEN", "here")
    target = MemoryRegistry()
    with serving(filled(), "there") as source, serving(target, "here") as url:
        words = ("import", "--from-registry", source, "--from-token-file", "token")
        told = loaded(run_command(schema, *words, "--registry", url, "--json"))
        assert told["verified"] is True
        assert target.held == filled().held
        monkeypatch.setenv("TALLYMARK_REGISTRY_TOKEN", "wrong")
        with pytest.raises(UserError, match="401: Unauthorized") as caught:
            run_command(schema, *words, "--registry", url)
    assert caught.value.exit_code == 3


def test_a_conflict_changes_nothing() -> None:
    Path("all.jsonl").write_bytes(exported(filled().held))
    server = MemoryRegistry()
    server.held.add(version("s/1", 9, '"int"'))
    before = dict(server.held.versions)
    with serving(server) as url:
        told = run_command(schema, "import", "all.jsonl", "--registry", url, code=1).stdout
    assert "conflict: s version 1: another schema in the target (id 9, here 1)\n" in told
    assert '    - "schema": "int"\n' in told
    assert told.endswith("nothing was changed\n")
    assert server.held.versions == before


def test_the_mode_afterwards_can_be_chosen() -> None:
    """The source is READONLY while people move; the target shall not be."""
    server = filled()
    server.held.modes[""] = "READONLY"
    target = MemoryRegistry()
    with serving(server) as source, serving(target) as url:
        words = ("import", "--from-registry", source, "--registry", url)
        run_command(schema, *words, "--mode", "readwrite")
        assert target.held.modes[""] == "READWRITE"
        run_command(schema, *words)
        assert target.held.modes[""] == "READONLY"


def test_what_was_not_understood_is_told() -> None:
    lines = exported(filled().held).decode().split("\n")[:-2]  # U+2028 ends no line
    lines.append('{"key":{"keytype":"ASSOC","magic":0},"value":{}}')
    lines.append('{"key":{"keytype":"SCHEMA","subject":"u","version":1,"magic":1},"value":{}}')
    Path("all.jsonl").write_text("\n".join(lines))
    with serving(MemoryRegistry()) as url:
        told = run_command(schema, "import", "all.jsonl", "--registry", url, code=1).stdout
    assert told.startswith(
        "the file has no last line that proves it whole (another program wrote it)\n"
        "1 records of the kind ASSOC were passed over\n"
        "  SCHEMA u 1: it has no id, or no schema\n"
    )
    assert "verified" in told


def test_from_a_topic_of_our_own_broker() -> None:
    """Old keys, tombstones, DELETE_SUBJECT, garbage; in several batches, up to the end."""

    def key(**named: Any) -> bytes:
        return json.dumps(named).encode()

    def value(number: int, text: str, deleted: bool = False) -> bytes:
        document = {"subject": "s", "version": number, "id": number, "schema": text}
        return json.dumps(document | {"deleted": deleted}).encode()

    records: list[tuple[bytes | None, bytes | None]] = [
        (key(keytype="NOOP", magic=0), None),
        (key(keytype="CONFIG", subject=None, magic=0), b'{"compatibilityLevel":"FULL"}'),
        (key(keytype="SCHEMA", subject="s", version=1, magic=0), value(1, '"int"')),
        (key(keytype="SCHEMA", subject="s", version=2, magic=1), value(2, '"long"')),
        (key(keytype="DELETE_SUBJECT", subject="s", magic=0), b'{"subject":"s","version":2}'),
        (key(magic=1, version=1, subject="s", keytype="SCHEMA"), None),
        (
            key(keytype="SCHEMA", subject="s", version=3, magic=1, seq=7, node=1),
            value(3, '"bytes"'),
        ),
        (None, b"garbage"),
        (b"\xff", b"{}"),
    ]
    target = MemoryRegistry()
    with MemoryBroker() as broker, serving(target) as url:
        with Producer(bootstrap_servers=broker.bootstrap_servers, audit=False) as producer:
            for name, content in records:
                producer.send("_schemas", content, key=name, partition=0)
                producer.flush()
        place = f"{broker.bootstrap_servers}/_schemas"
        told = loaded(
            run_command(schema, "import", "--from-topic", place, "--registry", url, "--json")
        )
        run_command(schema, "export", "topic.jsonl", "--from-topic", place)
        with pytest.raises(KafkaError, match="nothing: UNKNOWN_TOPIC"):
            run_command(
                schema, "export", "no", "--from-topic", f"{broker.bootstrap_servers}/nothing"
            )
    assert (told["versions"], told["unreadable"], told["verified"]) == (2, 2, True)
    wanted = Snapshot(configs={"": {"compatibilityLevel": "FULL"}}, modes={"": "READWRITE"})
    wanted.add(version("s/2", 2, '"long"', deleted=True))
    wanted.add(version("s/3", 3, '"bytes"'))
    assert target.held == wanted
    del wanted.modes[""]
    assert Path("topic.jsonl").read_bytes() == exported(wanted)


def test_lists_of_a_registry_that_has_no_list_of_versions() -> None:
    """Older ones and Redpanda have no ``GET /schemas``: each version is asked for."""
    server = MemoryRegistry(bulk=False, contexts=False)
    for place in ("s/1", "s/2", "t/1"):
        server.held.add(version(place, int(place[2]), deleted=place == "s/2"))
    with serving(server) as url:
        words = ("--registry", url, "--json")
        every = loaded(run_command(schema, "list", "--all", "--deleted", *words))
        latest = loaded(run_command(schema, "list", *words))
    assert [(row["subject"], row["version"], row["deleted"]) for row in every] == [
        ("s", 1, False), ("s", 2, True), ("t", 1, False)
    ]  # fmt: skip
    assert [(row["subject"], row["version"]) for row in latest] == [("s", 1), ("t", 1)]


def test_errors_and_their_exit_codes() -> None:
    with pytest.raises(UserError, match="connect failed") as caught:
        run_command(schema, "export", "x", "--registry", "http://127.0.0.1:1")
    assert caught.value.exit_code == 3
    assert not Path("x").exists()
    for words in (
        ("import",),
        ("import", "x", "--from-registry", "http://127.0.0.1:1"),
        ("import", "--from-topic", "no-slash"),
    ):
        assert "Usage:" in run_command(schema, *words, code=2).stderr
    Path("cut").write_bytes(exported(filled().held)[:-30])
    with pytest.raises(UserError, match="line 9: it is not JSON"), serving(filled()) as url:
        run_command(schema, "import", "cut", "--registry", url)
