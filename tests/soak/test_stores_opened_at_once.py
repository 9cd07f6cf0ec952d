"""Several processes that open one new SQLite file at once, as a first start does."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from tallymark_audit.store import open_store
from tallymark_schema_registry.store.opening import open_store as open_registry_store

pytestmark = pytest.mark.soak

PROCESSES = 4
TIMES = 100


def open_registry(address: str) -> None:
    store = open_registry_store(address)
    assert store.unchanged(0)
    store.close()


def open_audit(address: str) -> None:
    open_store(address).close()


def open_all(
    folder: str, opens: Callable[[str], None], together: Barrier, errors: Any, times: int
) -> None:
    for number in range(times):
        together.wait(60)
        try:
            opens(f"sqlite:///{folder}/{number}.db")
        except Exception as error:
            errors.put(f"{number}: {error}")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("opens", [open_registry, open_audit])
def test_four_processes_open_one_new_file(tmp_path: Path, opens: Callable[[str], None]) -> None:
    """Of 160 such openings of a registry 4 ended with "database is locked"."""
    context = multiprocessing.get_context("spawn")
    together, errors = context.Barrier(PROCESSES), context.Queue()
    started = [
        context.Process(target=open_all, args=(str(tmp_path), opens, together, errors, TIMES))
        for _ in range(PROCESSES)
    ]
    for one in started:
        one.start()
    for one in started:
        one.join(540)
    assert [one.exitcode for one in started] == [0] * PROCESSES
    assert errors.empty(), errors.get()
