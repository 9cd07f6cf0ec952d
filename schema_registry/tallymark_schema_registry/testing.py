"""A registry for a test, in some 30 ms and forgotten afterwards. In ``conftest.py``::

    pytest_plugins = ["tallymark_schema_registry.testing"]

    def test_orders(schema_registry):
        client = RegistryClient(schema_registry.url)  # or any other client

or without pytest: ``with memory_registry() as registry: registry.url``. It is the registry itself,
in a thread of the test's process; its store is a file in memory where the machine has a place for
files in memory (``/dev/shm``), so no commit waits for a disk. Needs pytest and the extra
``registry``.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from tallymark_schema_registry.embedded import RegistryServer

_IN_MEMORY: Final = Path("/dev/shm")
_Later = Callable[[Callable[[], None]], object]


@contextmanager
def memory_registry() -> Iterator[RegistryServer]:
    """A running registry without any schema; ``url`` is where. It is gone at the end."""
    with _registry(lambda close: close()) as registry:
        yield registry


@pytest.fixture(scope="session")
def _closing() -> Iterator[ThreadPoolExecutor]:
    """Where registries are closed: each takes 0.2 s, and no test has to wait for that."""
    with ThreadPoolExecutor(4, thread_name_prefix="closing-registry") as pool:
        yield pool


@pytest.fixture
def schema_registry(_closing: ThreadPoolExecutor) -> Iterator[RegistryServer]:
    """A registry for this test alone, without any schema; ``schema_registry.url`` is where."""
    with _registry(_closing.submit) as registry:
        yield registry


@contextmanager
def _registry(later: _Later) -> Iterator[RegistryServer]:
    # 1 s to import, and this module is loaded by every test session that names it.
    from tallymark_schema_registry.embedded import RegistryServer

    in_memory = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="tallymark-registry-", dir=in_memory)
    try:
        server = RegistryServer(f"sqlite:///{folder}/registry.db")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise

    def close() -> None:
        server.close()
        shutil.rmtree(folder, ignore_errors=True)

    try:
        yield server
    finally:
        later(close)
