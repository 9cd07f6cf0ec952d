"""One server for each store and each response profile; all tests of this folder share them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from rest_api import Api, Kind

from tallymark_schema_registry.embedded import RegistryServer
from tallymark_schema_registry.web.responses import Profile

if TYPE_CHECKING:
    from postgres import PostgresServer


KINDS = [Kind(store, profile) for store in ("sqlite", "postgresql") for profile in Profile]


@pytest.fixture(scope="session", params=KINDS, ids=lambda kind: f"{kind.store}-{kind.profile}")
def kind(request: pytest.FixtureRequest) -> Kind:
    found = request.param
    assert isinstance(found, Kind)
    return found


@pytest.fixture(scope="session")
def served(
    request: pytest.FixtureRequest, kind: Kind, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RegistryServer]:
    with RegistryServer(_store(request, kind, tmp_path_factory), profile=kind.profile) as server:
        yield server


def _store(
    request: pytest.FixtureRequest, kind: Kind, tmp_path_factory: pytest.TempPathFactory
) -> str:
    if kind.store == "sqlite":
        folder: Path = tmp_path_factory.mktemp("registry")
        return f"sqlite:///{folder / 'registry.db'}"
    postgres: PostgresServer = request.getfixturevalue("postgres_server")
    return postgres.new_database()


@pytest.fixture(scope="session")
def http(served: RegistryServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.url, timeout=30) as client:
        yield client


@pytest.fixture
def api(request: pytest.FixtureRequest, kind: Kind, http: httpx.Client) -> Iterator[Api]:
    """The server, with a subject of the test's own. At the end: has the test got what it covers?"""
    paths = http.get("/openapi.json").json()["paths"]
    subject = "".join(each if each.isalnum() else "-" for each in request.node.name)
    api = Api(http, kind.profile, paths, subject)
    failed_before = request.session.testsfailed
    yield api
    if request.session.testsfailed > failed_before:
        return
    missing = set(getattr(request.function, "covered", ())) - api.seen
    assert not missing, f"the test says that it covers {sorted(missing)}, and got {api.seen}"
