"""The registry without HTTP: identity of schemas, and registration by many at once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from tallymark.errors import UserError
from tallymark_schema_registry.errors import RegistryError
from tallymark_schema_registry.service import Registry, parse_version
from tallymark_schema_registry.store import Store, open_engine
from tallymark_schema_registry.store.tables import metadata


def with_field(name: str, default: str = ', "default": 0') -> str:
    field = f'{{"name": "{name}", "type": "int"{default}}}'
    return f'{{"type": "record", "name": "R", "fields": [{field}]}}'


@pytest.fixture
def store(database: str) -> str:
    """Address of an empty store."""
    return database


@pytest.fixture
def registry(store: str) -> Iterator[Registry]:
    registry = Registry(Store(open_engine(store)))
    yield registry
    registry.close()


def test_the_same_schema_has_one_id_in_all_subjects(registry: Registry) -> None:
    first = registry.register("a", with_field("x"))
    assert registry.register("b", "  " + with_field("x")) == first
    assert registry.register("a", with_field("y")) == first + 1
    assert registry.uses(first) == [("a", 1), ("b", 1)]
    assert registry.versions("a") == [1, 2]
    # Registering an old version again makes no new one.
    assert registry.register("a", with_field("x")) == first
    assert registry.versions("a") == [1, 2]


def test_a_refused_schema_leaves_nothing_behind(registry: Registry) -> None:
    registry.register("a", with_field("x"))
    with pytest.raises(RegistryError) as refused:
        registry.register("a", with_field("y", default=""))
    assert refused.value.status == 409
    assert registry.versions("a") == [1]
    with pytest.raises(RegistryError):
        registry.text(2)


def test_it_survives_a_restart(store: str) -> None:
    first = Registry(Store(open_engine(store)))
    schema_id = first.register("a", with_field("x"))
    first.close()
    second = Registry(Store(open_engine(store)))
    assert second.lookup("a", with_field("x")).schema_id == schema_id
    second.close()


def test_concurrent_registrations_are_linearizable(store: str) -> None:
    """On PostgreSQL two writers once took the same next version, for want of a lock.

    Four nodes on one store, started at once, many clients: one id per content, versions and ids
    without gaps."""
    with ThreadPoolExecutor(4) as pool:
        nodes = list(pool.map(lambda _: Registry(Store(open_engine(store))), range(4)))
    work = [(f"s{n % 3}", with_field(f"f{n % 5}")) for n in range(60)]

    def register(item: tuple[int, tuple[str, str]]) -> int:
        number, (subject, text) = item
        return nodes[number % len(nodes)].register(subject, text)

    with ThreadPoolExecutor(12) as pool:
        ids = list(pool.map(register, enumerate(work)))
    by_text = {
        text: {i for i, (_, other) in zip(ids, work, strict=True) if other == text}
        for _, text in work
    }
    assert all(len(found) == 1 for found in by_text.values())
    assert sorted(set(ids)) == [1, 2, 3, 4, 5]
    for subject in ("s0", "s1", "s2"):
        assert nodes[0].versions(subject) == [1, 2, 3, 4, 5]
    for node in nodes:
        node.close()


def test_of_two_incompatible_schemas_at_once_one_wins(store: str) -> None:
    """Each is compatible with nothing, not with each other: the check and the insert are one step.
    If they were not, both would be versions of the subject."""
    nodes = [Registry(Store(open_engine(store))) for _ in range(2)]
    for _ in range(5):
        subject = uuid.uuid4().hex

        def register(number: int, subject: str = subject) -> int:
            """0, or the status of the refusal."""
            try:
                nodes[number % 2].register(subject, with_field(f"f{number}", default=""))
            except RegistryError as fault:
                return fault.status
            return 0

        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(register, range(4)))
        assert sorted(results) == [0, 409, 409, 409]
        assert nodes[0].versions(subject) == [1]
    for node in nodes:
        node.close()


@pytest.mark.parametrize("text", ["0", "-2", "x", "", "1.5", "2147483648", "99999999999999", "²"])
def test_versions_that_are_none(text: str) -> None:
    with pytest.raises(RegistryError) as fault:
        parse_version(text)
    assert fault.value.code == 42202


def test_versions_that_are_one() -> None:
    assert [parse_version(text) for text in ("1", "2147483647", "latest", "LATEST", "-1")] == [
        1,
        2147483647,
        "latest",
        "latest",
        "latest",
    ]


@pytest.mark.parametrize("subject", ["", "a\nb", "\x00", ":.ctx:a", "x" * 1001])
def test_subjects_that_are_refused(registry: Registry, subject: str) -> None:
    with pytest.raises(RegistryError) as fault:
        registry.register(subject, '"int"')
    assert fault.value.code == 42208


@pytest.mark.parametrize(
    "address", ["nonsense", "mystery://x", "sqlite://", "sqlite:////proc/x/r.db"]
)
def test_a_store_that_cannot_be_opened_is_said_in_one_line(address: str) -> None:
    with pytest.raises(UserError) as error:
        open_engine(address)
    assert "\n" not in str(error.value)


def test_the_tables_can_be_made_in_postgresql() -> None:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy leaves it untyped
    for table in metadata.sorted_tables:
        assert "CREATE TABLE" in str(CreateTable(table).compile(dialect=dialect))
