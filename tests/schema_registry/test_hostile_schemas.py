"""Schemas that cost far more than their length says, in a registry that others use meanwhile.

A user's generator made a union of 1,200 records (112 kB). Its registration took half a minute and
1.9 GB in the registry, within the transaction that writes: everybody else got 500 meanwhile.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from hostile_schemas import SMALL

from tallymark_schema_registry import levels
from tallymark_schema_registry.bounded_cache import BoundedCache
from tallymark_schema_registry.embedded import RegistryServer
from tallymark_schema_registry.node import understanding
from tallymark_schema_registry.schemas import Budget, Schema

MIB = 1 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    folder = tmp_path_factory.mktemp("registry")
    with RegistryServer(f"sqlite:///{folder / 'registry.db'}") as server:
        yield server


def test_too_large_is_42201_with_words(server: RegistryServer) -> None:
    first, second = SMALL["unions of one name"]()
    with httpx.Client(base_url=server.url, timeout=60) as http:
        answer = http.post("/subjects/unions/versions", json={"schema": first})
        assert answer.status_code == 200
        refused = http.post("/subjects/unions/versions", json={"schema": second})
        assert (refused.status_code, refused.json()["error_code"]) == (422, 42201)
        assert "too large" in refused.json()["message"]
        assert "a level that is not transitive" in refused.json()["message"]
        assert http.get("/subjects/unions/versions").json() == [1]


def test_a_long_text_is_not_repeated_in_the_answer(server: RegistryServer) -> None:
    """An unknown type's name of 900 kB came back whole."""
    with httpx.Client(base_url=server.url, timeout=60) as http:
        schema = json.dumps({"type": ["x" * 900_000]})
        refused = http.post("/subjects/long/versions", json={"schema": schema})
        assert refused.json()["error_code"] == 42201
        assert len(refused.content) < 10_000


def test_who_registers_a_small_schema_does_not_wait_for_large_ones(
    server: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All 40 threads compared large schemas, and even reading a subject had to wait for them.

    One comparison stands still, others wait for it: reading and registering go on, and one more
    than may wait is told to come again."""
    begun, go_on = threading.Event(), threading.Event()
    compare = levels.findings

    def slow(level: levels.Level, new: Schema, old: Schema, budget: Budget, **more: bool) -> object:
        if budget.left > 500_000:
            begun.set()
            assert go_on.wait(60)
        return compare(level, new, old, budget, **more)

    limits = httpx.Limits(max_connections=30)
    with (
        httpx.Client(base_url=server.url, timeout=60, limits=limits) as http,
        ThreadPoolExecutor(8) as pool,
    ):
        for number in range(6):
            first = SMALL["unions of one name"]()[0]
            http.post(f"/subjects/heavy{number}/versions", json={"schema": first})
        monkeypatch.setattr(understanding, "findings", slow)
        second = SMALL["unions of one name"]()[1]
        try:
            waiting = [
                pool.submit(http.post, f"/subjects/heavy{n}/versions", json={"schema": second})
                for n in range(6)
            ]
            assert begun.wait(60)
            assert http.post("/subjects/small/versions", json={"schema": '"int"'}).is_success
            assert http.get("/subjects/small/versions").json() == [1]
        finally:
            go_on.set()
        answers = [one.result(60) for one in waiting]
    assert {one.status_code for one in answers} == {422, 503}
    assert all("Retry-After" in one.headers for one in answers if one.status_code == 503)


def test_what_is_remembered_is_bounded_in_bytes() -> None:
    """1,024 schemas of up to 64 kB, parsed, were a gigabyte."""
    cache: BoundedCache[str, str] = BoundedCache(100, largest=40)
    for number in range(50):
        cache.put(f"{number}", "x", "." * (number % 60))
        assert cache.size <= 100
    assert cache.get("41") is None
    cache.put("again", "a", "." * 10)
    cache.put("again", "b", "." * 20)
    assert cache.get("again") == "b"
    assert sum(1 for n in range(50) if cache.get(f"{n}")) == len(cache) - 1
