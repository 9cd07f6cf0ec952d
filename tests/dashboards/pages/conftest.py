"""A prepared store for the tests of a module that only read, and one for a test that writes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from prepared_store import Prepared, deployment_in, prepare

from tallymark_audit.store import open_store
from tallymark_dashboards.app.application import create_app


@contextmanager
def prepared_in(folder: Path, more: int) -> Iterator[Prepared]:
    deployment = deployment_in(folder)
    with open_store(deployment.audit_store) as store:
        yield prepare(store, deployment, time.time_ns() // 1_000_000, hours=8, more=more)


@pytest.fixture(scope="module")
def prepared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prepared]:
    """For tests that only read; with as many further topics as the module says in ``MORE``."""
    more = getattr(request.module, "MORE", 0)
    with prepared_in(tmp_path_factory.mktemp("prepared"), more) as one:
        yield one


@pytest.fixture(scope="module")
def pages(prepared: Prepared) -> Iterator[TestClient]:
    with TestClient(create_app(prepared.deployment, prepared.store)) as client:
        yield client


@pytest.fixture
def own(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Prepared]:
    """For a test that writes."""
    with prepared_in(tmp_path, getattr(request.module, "MORE", 0)) as one:
        yield one


@pytest.fixture
def own_client(own: Prepared) -> Iterator[TestClient]:
    with TestClient(create_app(own.deployment, own.store)) as client:
        yield client
