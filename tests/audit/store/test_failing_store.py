"""The double that fails: everything before the failure is rolled back, a commit that fails
afterwards is not, and every place is reached."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import func, select
from sqlalchemy.exc import OperationalError

from tallymark_audit.store import Store, open_store
from tallymark_audit.store.counted import counts
from tallymark_audit.store.schema.tables import window_changes
from tallymark_audit.testing import FailingStore


def work(store: Store) -> None:
    with store.write() as connection:
        counts.touch(connection, "dc1", {("t", 0)}, 1)
        counts.touch(connection, "dc1", {("t", 1)}, 1)


def found(store: Store) -> int:
    with store.read() as connection:
        return connection.scalar(select(func.count()).select_from(window_changes)) or 0


@pytest.mark.parametrize("after", [False, True])
def test_it_fails_at_each_place_in_turn(after: bool, tmp_path: Path) -> None:
    reached, left = 0, []
    for at in range(1, 20):
        with open_store(f"sqlite:///{tmp_path / str(at)}") as store:
            failing = FailingStore(store)
            failing.arm(at, after=after)
            with suppress(OperationalError):
                work(store)
            if not failing.disarm():
                break
            reached = at
            assert len(failing.calls) >= at
            left.append(found(store))
            work(store)
            assert found(store) == 2
    assert reached >= 3
    assert left == [0] * (reached - 1) + [2 if after else 0]


def test_a_lasting_failure_ends_when_disarmed(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'db'}") as store:
        failing = FailingStore(store)
        failing.arm(1, lasting=True)
        for _ in range(3):
            with pytest.raises(OperationalError, match="the store failed at: INSERT"):
                work(store)
        assert failing.disarm()
        work(store)
        failing.release()
        work(store)
        assert found(store) == 2
