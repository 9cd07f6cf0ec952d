"""The store cannot be reached: 503 with ``Retry-After`` and code 50001, in both profiles."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from rest_api import RECORD, operations

from tallymark_schema_registry import errors
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
    "POST /subjects/{subject}/versions": {"schema": RECORD},
    "PUT /config": {"compatibility": "FULL"},
    "PUT /config/{subject}": {"compatibility": "FULL"},
    "PUT /mode": {"mode": "READONLY"},
    "PUT /mode/{subject}": {"mode": "READONLY"},
}
NAMED = sorted(
    name for name, operation in operations(api_document()).items() if 50001 in operation[CODES]
)


def test_everything_that_changes_the_store_names_the_code() -> None:
    changing = [name for name in NAMED if not name.startswith("GET ")]
    assert len(changing) == 13


@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize("name", NAMED)
def test_a_store_that_does_not_answer(name: str, profile: Profile) -> None:
    """It was a 500, which clients take for a fault that stays."""
    method, path = name.split(" ", 1)
    path = path.format(subject="s", version="1", context=".c")
    transport = httpx.ASGITransport(app=create_app(Unreachable(), "", profile))

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://registry") as http:
            return await http.request(method, path, json=BODIES.get(name))

    answer = asyncio.run(ask())
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    assert answer.json()["error_code"] == 50001
