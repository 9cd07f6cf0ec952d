"""Two servers on one store, four processes of clients, and kill -9 of one server in the middle.

No id is lost, reused or given to two schemas, what was acknowledged is stored, a READONLY holds at
once on both servers."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import registry_load
from registry_load import text_of
from web_process import WebProcess

from tallymark_schema_registry.catalog.catalog import Catalog
from tallymark_schema_registry.catalog.records import (
    SchemaAdded,
    SchemaRemoved,
    VersionAdded,
    VersionDeleted,
    VersionRemoved,
)
from tallymark_schema_registry.catalog.subject import Subject
from tallymark_schema_registry.decisions import scope
from tallymark_schema_registry.store.changes import Change
from tallymark_schema_registry.store.opening import open_store

pytestmark = [pytest.mark.process, pytest.mark.timeout(280)]

PROCESSES = 4
REQUESTS = 250
IDS = 300
"""More than are given."""


@pytest.mark.soak_cases("postgresql")
def test_a_server_is_killed_while_both_are_written(database: str, tmp_path: Path) -> None:
    attack(database, tmp_path, REQUESTS // 2)


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("run", range(20))
def test_twenty_times(database: str, tmp_path: Path, run: int) -> None:
    attack(database, tmp_path, REQUESTS)


def attack(database: str, folder: Path, requests: int) -> None:
    settings = f'store = "{database}"\nresponse_profile = 8\n'
    with ExitStack() as stack:
        servers = []
        for name in ("one", "other"):
            (folder / name).mkdir()
            servers.append(stack.enter_context(WebProcess(folder / name, "registry", settings)))
        urls = [server.url for server in servers]
        httpx.put(f"{urls[0]}/config", json={"compatibility": "NONE"}).raise_for_status()
        command = [sys.executable, registry_load.__file__]
        clients = [
            subprocess.Popen([*command, str(number), str(requests), *urls], stdout=subprocess.PIPE)
            for number in range(PROCESSES)
        ]
        for client in clients:
            stack.callback(client.kill)
        begun = kill_in_the_middle(servers[1], database, PROCESSES * requests)
        output = [client.communicate(timeout=200)[0] for client in clients]
        assert [client.returncode for client in clients] == [0] * PROCESSES
        lines = [json.loads(line) for data in output for line in data.splitlines()]
        assert begun, "it was killed when all was over"
        both_know_the_same(urls)
    changes = stored(database)
    ids_are_given_once(changes)
    assert not [line for line in lines if "broken" in line]
    what_was_acknowledged_is_stored(lines, changes)
    read_only_is_kept(lines, changes)


def kill_in_the_middle(server: WebProcess, database: str, requests: int) -> bool:
    """kill -9 once some of the changes are there, and start it again at the same address."""
    store = open_store(database)
    while len(store.since(0)) < requests // 10:
        time.sleep(0.02)
    before = len(store.since(0))
    server.__exit__()
    time.sleep(0.3)
    server.__enter__()
    time.sleep(0.3)
    goes_on = len(store.since(0)) > before
    store.close()
    return goes_on


def both_know_the_same(urls: list[str]) -> None:
    def known(url: str) -> dict[str, Any]:
        with httpx.Client(base_url=url) as http:
            found = {"subjects": http.get("/subjects?deleted=true").json()}
            for subject in found["subjects"]:
                found[subject] = http.get(f"/subjects/{subject}/versions?deleted=true").json()
            found["latest"] = http.get("/schemas?latestOnly=true").json()
            for number in range(1, IDS):
                found[str(number)] = http.get(f"/schemas/ids/{number}").json()
            return found

    one, other = (known(url) for url in urls)
    assert one == other
    assert one["latest"]


def stored(database: str) -> list[Change]:
    store = open_store(database)
    try:
        found = list[Change]()
        while more := store.since(len(found)):
            found += more
        assert [change.number for change in found] == list(range(1, len(found) + 1))
        built = Catalog()
        for change in found:
            built.apply(change.number, change.record)
        assert store.load().contexts == built.contexts
        return found
    finally:
        store.close()


def ids_are_given_once(changes: list[Change]) -> None:
    """And numbers of versions."""
    ids, versions, there = set[int](), dict[str, int](), set[str]()
    by_id = dict[int, str]()
    for change in changes:
        record = change.record
        if isinstance(record, SchemaAdded):
            assert record.schema_id not in ids
            assert record.schema_id == max(ids, default=0) + 1
            assert record.md5 not in there
            ids.add(record.schema_id)
            there.add(record.md5)
            by_id[record.schema_id] = record.md5
        elif isinstance(record, SchemaRemoved):
            there.discard(by_id[record.schema_id])
        elif isinstance(record, VersionAdded):
            assert record.version == versions.get(record.subject, 0) + 1
            versions[record.subject] = record.version


def what_was_acknowledged_is_stored(lines: list[dict[str, Any]], changes: list[Change]) -> None:
    md5s = {c.record.schema_id: c.record.md5 for c in changes if isinstance(c.record, SchemaAdded)}
    added = {
        (c.record.subject, c.record.version): (c.record.schema_id, c.at_ms)
        for c in changes
        if isinstance(c.record, VersionAdded)
    }
    gone = {
        (c.record.subject, c.record.version)
        for c in changes
        if isinstance(c.record, VersionDeleted | VersionRemoved)
    }
    md5_of = {hashlib.md5(text.encode()).hexdigest(): text for text in texts(lines)}
    registered = deleted = 0
    for line in lines:
        assert line["status"] in (0, 200, 404, 409, 422, 503) or _timed_out(line), line
        subject = line["path"].split("/")[2].split("?")[0]
        if line["status"] != 200 or line["method"] == "GET":
            continue
        if line["method"] == "POST":
            registered += 1
            answer = line["answer"]
            schema_id, at_ms = added[subject, answer["version"]]
            assert schema_id == answer["id"], line
            assert at_ms <= line["ended"]
            assert md5_of[md5s[schema_id]] == line["body"]["schema"] == answer["schema"]
        elif "/versions/" in line["path"]:
            deleted += 1
            assert (subject, line["answer"]) in gone, line
    assert registered > 100
    assert deleted > 10


def _timed_out(line: dict[str, Any]) -> bool:
    return bool(line["status"] == 500 and line["answer"]["error_code"] == 50002)


def texts(lines: list[dict[str, Any]]) -> Iterator[str]:
    yield from (text_of(number) for number in range(registry_load.TEXTS))
    yield from (line["body"]["schema"] for line in lines if line["method"] == "POST")


def read_only_is_kept(lines: list[dict[str, Any]], changes: list[Change]) -> None:
    catalog = Catalog()
    for change in changes:
        record = change.record
        if isinstance(record, VersionAdded):
            subject = Subject(record.context, record.subject)
            assert not scope.mode_in_scope(catalog, subject).read_only, change
        catalog.apply(change.number, record)
    assert any(line["path"].startswith("/mode/") and line["status"] == 200 for line in lines)
