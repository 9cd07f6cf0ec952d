"""What holds for all tests."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from resource_marks import OpeningGuard, mark_what_tests_open
from shared_collection import begin_apart, in_one_order
from shared_servers import OneWorkerAServer
from slow_tests import SlowTests
from soak_cases import mark_soak_cases

if TYPE_CHECKING:
    from postgres import PostgresServer
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

    from tallymark.processes.apache_kafka import ApacheKafkaServer

# A loaded machine is slow now and then, which says nothing about the code. Where the same change
# is judged again and again (CI), the same examples are tried, so that it is judged alike.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.register_profile("fast", deadline=None, max_examples=20)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "default")
)


# Java compiles for minutes what a test runs for seconds: sessions that Spark starts by itself, as
# those of a notebook, begin as quickly as those of our jobs.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--without-slow", action="store_true", help="what was slow here is left out")


def pytest_configure(config: pytest.Config) -> None:
    slow = SlowTests(config, leave_out=config.getoption("without_slow"))
    config.pluginmanager.register(slow)
    wanted = config.option.markexpr
    left_out = [name for name in ("socket", "database") if f"not {name}" in wanted]
    if left_out:
        config.pluginmanager.register(OpeningGuard(left_out))
    begin_apart(config)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Nothing that is collected goes before the end of the run: the garbage collector need not
    look at it again and again, neither here nor in the tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mark_soak_cases(items)
    if any(name in config.option.markexpr for name in ("socket", "database")):
        mark_what_tests_open(items)
    if hasattr(config, "workerinput"):  # one of several workers
        in_one_order(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    return OneWorkerAServer(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session", autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What commands keep for their user (the trail of administrators) is not kept in his home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafkaServer]:
    """One Apache Kafka for all tests of this run. A test may kill it, and starts it again then.
    Members of groups may be taken for dead as soon as those of our broker; it compacts often. It
    deletes nothing for its age: tests write timestamps of years ago, and every five minutes of a
    long run the retention took what a test was just reading."""
    from broker_kinds import start_apache_kafka

    settings = {
        "group.min.session.timeout.ms": "100",
        "log.cleaner.backoff.ms": "200",
        "log.retention.ms": "-1",
    }
    server = start_apache_kafka(tmp_path_factory.mktemp("apache-kafka"), settings)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One private PostgreSQL for all tests of this run."""
    from postgres import start_postgres

    server = start_postgres()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> str:
    """SQLAlchemy address of an empty PostgreSQL database."""
    return postgres_server.new_database()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """SQLAlchemy address of an empty database: the test runs on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'database' / 'test.db'}"
    address: str = request.getfixturevalue("postgres")
    return address
