"""What a verdict adds to sums is the same in Python and in SQL, and adds up. An EXPLAINED window
whose records are known by their number only had pending messages for ever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from tallymark_audit.judge.states import UNDECIDED, State
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.schema.balance import added_by, adding_columns, counts_of
from tallymark_audit.store.schema.tables import verdicts

NAMES = ("claimed", "observed", "missing", "duplicates", "unclaimed", "explained")
rows = st.builds(
    lambda state, accepted, counts: {"state": state, "accepted_by": accepted, **counts},
    st.sampled_from([*map(str, State), "of a later version"]),
    st.sampled_from(["", "ada"]),
    st.fixed_dictionaries({name: st.integers(0, 9) for name in NAMES}),
)


@pytest.fixture(params=["sqlite", "postgresql"])
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Store]:
    postgres = request.param == "postgresql"
    address = request.getfixturevalue("postgres") if postgres else f"sqlite:///{tmp_path}/audit.db"
    with open_store(address) as store:
        yield store


@given(row=rows)
def test_every_message_is_in_one_column(row: dict[str, object]) -> None:
    found = counts_of(row)
    parts = ("observed", "pending", "missing", "explained")
    assert found["claimed"] == row["claimed"] == sum(found[name] for name in parts)
    assert min(found.values()) >= 0
    decided = row["state"] in set(map(str, State)) - set(map(str, UNDECIDED))
    assert not (found["pending"] if decided else found["missing"])


@given(some=st.lists(rows, min_size=1, max_size=8))
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_the_database_computes_the_same(store: Store, some: list[dict[str, object]]) -> None:
    with store.write() as connection:
        connection.execute(verdicts.delete())
        for window, row in enumerate(some):
            place = {"edge": "a-to-b", "topic": "t", "window": window, "source": "collector"}
            connection.execute(verdicts.insert().values(**place, **row))
    query = select(*adding_columns(verdicts)).order_by(verdicts.c.window)
    with store.read() as connection:
        found = [dict(row) for row in connection.execute(query).mappings()]
    assert found == [added_by(row) for row in some]
