"""What a log says of a store that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from tallymark_audit.store.trouble import trouble, unusable


def test_a_disk_without_room_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    """The collector's line ended with "Background on this error at: https://sqlalche.me/e/21/e3q8",
    and its reader had to find out which disk was full."""
    engine = create_engine(f"sqlite:///{tmp_path}/full.db")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE t (x TEXT)"))
        connection.execute(text("PRAGMA max_page_count = 3"))
        with pytest.raises(OperationalError) as caught:
            connection.execute(text("INSERT INTO t VALUES (:x)"), {"x": "x" * 100_000})
    engine.dispose()
    assert trouble(caught.value) == ("database or disk is full; make room on the disk of the store")
    assert trouble(ValueError("something else")) == "something else"
    assert unusable("postgresql://audit:hush@db/audit", ValueError("gone")) == (
        "cannot use the store postgresql://audit:***@db/audit: gone"
    )
