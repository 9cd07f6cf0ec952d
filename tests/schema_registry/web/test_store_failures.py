"""The store cannot be reached: 503 with ``Retry-After`` and code 50001, in both profiles. What is
in memory is answered all the same."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from eventually import eventually
from rest_api import RECORD, operations
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from tallymark_schema_registry import errors
from tallymark_schema_registry.embedded import RegistryServer
from tallymark_schema_registry.node.registry import Registry
from tallymark_schema_registry.web.app import api_document, create_app
from tallymark_schema_registry.web.described import CODES
from tallymark_schema_registry.web.responses import Profile


class Unreachable(Registry):
    """Its store does not answer."""

    def __init__(self) -> None:
        """It has none."""

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") or name in ("start", "close"):
            return super().__getattribute__(name)

        async def fail(*_: Any, **__: Any) -> Any:
            raise errors.store_failed()

        return fail


BODIES = {
    "POST /subjects/{subject}": {"schema": RECORD},
    "POST /compatibility/subjects/{subject}/versions": {"schema": RECORD},
    "POST /compatibility/subjects/{subject}/versions/{version}": {"schema": RECORD},
    "POST /subjects/{subject}/versions": {"schema": RECORD},
    "PUT /config": {"compatibility": "FULL"},
    "PUT /config/{subject}": {"compatibility": "FULL"},
    "PUT /mode": {"mode": "READONLY"},
    "PUT /mode/{subject}": {"mode": "READONLY"},
}
NAMED = sorted(
    name for name, operation in operations(api_document()).items() if 50001 in operation[CODES]
)


def test_what_needs_the_store_names_the_code() -> None:
    # The others describe the registry.
    assert len([name for name in NAMED if not name.startswith("GET ")]) == 16
    assert len([name for name in NAMED if name.startswith("GET ")]) == 21


@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize("name", NAMED)
def test_a_store_that_does_not_answer(name: str, profile: Profile) -> None:
    """It was a 500, which clients take for a fault that stays."""
    method, path = name.split(" ", 1)
    path = path.format(subject="s", version="1", context=".c", schema_id="1", guid="x")
    transport = httpx.ASGITransport(app=create_app(Unreachable(), "", profile))

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://registry") as http:
            return await http.request(method, path, json=BODIES.get(name))

    answer = asyncio.run(ask())
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    assert answer.json()["error_code"] == 50001


@pytest.mark.parametrize("profile", Profile)
def test_postgresql_goes_away_and_comes_back(postgres: str, profile: Profile) -> None:
    """What was asked for before is answered, whether it was remembered or is made anew."""
    database = make_url(postgres)
    admin = create_engine(database.set(database="postgres"), isolation_level="AUTOCOMMIT")
    name, by_name = database.database, "pg_stat_activity WHERE datname = :name"

    def let(allowed: str) -> None:
        with admin.connect() as connection:
            connection.execute(text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS {allowed}"))
            connection.execute(
                text(f"SELECT pg_terminate_backend(pid) FROM {by_name}"), {"name": name}
            )

    paths = ("/schemas/ids/1", "/subjects/s/versions/latest", "/subjects", "/config", "/mode/s")
    with (
        RegistryServer(postgres, profile=profile) as server,
        httpx.Client(base_url=server.url) as http,
    ):
        http.put("/mode/s", json={"mode": "READWRITE"})
        http.post("/subjects/s/versions", json={"schema": RECORD})
        before = [http.get(path).content for path in paths]
        let("false")
        refused = http.post("/subjects/t/versions", json={"schema": '"int"'})
        assert (refused.status_code, refused.json()["error_code"]) == (503, 50001)
        assert "retry-after" in refused.headers
        assert [http.get(path).content for path in paths] == before
        assert http.post("/subjects/s", json={"schema": RECORD}).status_code == 200
        assert http.get("/healthz").status_code == 503
        let("true")
        eventually(
            lambda: http.post("/subjects/t/versions", json={"schema": '"int"'}).status_code == 200
        )
    admin.dispose()
