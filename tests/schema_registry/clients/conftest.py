"""One registry for each test, of both response profiles where clients may see a difference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tallymark.serialization import RegistryClient
from tallymark_schema_registry.embedded import RegistryServer
from tallymark_schema_registry.web.responses import Profile


@pytest.fixture(params=list(Profile), ids=lambda profile: f"profile-{profile.value}")
def profile(request: pytest.FixtureRequest) -> Profile:
    found: Profile = request.param
    return found


@pytest.fixture
def registry(tmp_path: Path, profile: Profile) -> Iterator[RegistryServer]:
    """A running registry without any schema."""
    with RegistryServer(f"sqlite:///{tmp_path / 'registry.db'}", profile=profile) as server:
        yield server


@pytest.fixture
def ours(registry: RegistryServer) -> Iterator[RegistryClient]:
    """Our own client."""
    with RegistryClient(registry.url) as client:
        yield client
