"""Messages that a person asks for, of a real broker in memory and of one that does not answer."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from eventually import eventually

from tallymark.client import Admin, Producer
from tallymark.deployment import BrokerAddress, Cluster, Deployment
from tallymark.net.addresses import parse_address
from tallymark.protocol.api import ApiKey
from tallymark.testing import MemoryBroker, ScriptedBroker
from tallymark.testing.scripted_broker import Late
from tallymark_dashboards.snapshots.peeks import MAX_BYTES, PARALLEL, SECONDS, Peeks, Wanted

FIRST_MS = 1_767_268_800_000


def peeks_at(address: str, folder: Path) -> Peeks:
    place = parse_address(address)
    broker = BrokerAddress(host=place.host, port=place.port)
    deployment = Deployment(
        data_dir=folder, clusters=(Cluster(name="dc1", brokers=(broker,)),), mirrors=()
    )
    return Peeks(deployment)


@pytest.fixture(scope="module")
def broker() -> Iterator[MemoryBroker]:
    with MemoryBroker(auto_create_topics_enable=False) as running:
        servers = running.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topic("clicks", 2)
            admin.create_topic("large", 1)
            with Producer(bootstrap_servers=servers, audit=False) as producer:
                for number in range(50):
                    value = f"v{number}".encode()
                    time_ms = FIRST_MS + number * 1000
                    producer.send("clicks", value, key=b"k", partition=0, timestamp=time_ms)
                for _ in range(4):
                    producer.send("large", b"x" * 900_000, partition=0)
            admin.delete_records({("clicks", 0): 10}).check()
        yield running


@pytest.fixture
def peeks(broker: MemoryBroker, tmp_path: Path) -> Iterator[Peeks]:
    made = peeks_at(broker.bootstrap_servers, tmp_path)
    yield made
    made.close()


def offsets(peeks: Peeks, **wanted: int) -> list[int]:
    found = peeks.look(Wanted("dc1", "clicks", 0, **wanted))
    assert found.error == ""
    assert (found.start, found.end, found.partitions) == (10, 50, (0, 1))
    return [one.offset for one in found.messages]


def test_messages_by_offset_by_time_and_the_last_ones(peeks: Peeks) -> None:
    assert offsets(peeks, offset=12, count=3) == [12, 13, 14]
    assert offsets(peeks, time=FIRST_MS + 19_500, count=2) == [20, 21]
    assert offsets(peeks, count=4) == [46, 47, 48, 49]
    assert offsets(peeks, offset=49) == [49]
    assert len(offsets(peeks, offset=10, count=500)) == 40


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (Wanted("dc1", "clicks", 0, offset=3), "holds the offsets 10 to 49"),
        (Wanted("dc1", "clicks", 0, offset=50), "there is no offset 50"),
        (Wanted("dc1", "clicks", 0, time=FIRST_MS * 2), "there is no offset 50"),
        (Wanted("dc1", "clicks", 1, offset=0), "clicks-1 is empty"),
        (Wanted("dc1", "clicks", 7), "has no partition 7"),
        (Wanted("dc1", "<script>", 0), "has no topic"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(peeks: Peeks, wanted: Wanted, said: str) -> None:
    found = peeks.look(wanted)
    assert said in found.error
    assert found.messages == ()


def test_bytes_are_bounded_and_one_message_comes_in_any_case(peeks: Peeks) -> None:
    found = peeks.look(Wanted("dc1", "large", 0, offset=0, count=4))
    assert found.cut
    assert sum(len(one.value or b"") for one in found.messages) <= MAX_BYTES
    assert [one.offset for one in found.messages] == [0]


def test_a_broker_that_does_not_answer_takes_no_more_than_some_seconds(tmp_path: Path) -> None:
    """Four peeks at most wait for it; further ones are refused at once, and its threads come
    back."""
    with ScriptedBroker({"clicks": 1}) as broker:
        broker.script(ApiKey.LIST_OFFSETS, *[Late(60)] * 50)
        peeks = peeks_at(broker.address, tmp_path)
        try:
            begun = time.monotonic()
            found = peeks.look(Wanted("dc1", "clicks", 0, offset=0))
            assert time.monotonic() - begun < SECONDS + 10
            assert found.error
            assert found.messages == ()
            broker.unscript(ApiKey.LIST_OFFSETS)
            eventually(lambda: "empty" in peeks.look(Wanted("dc1", "clicks", 0)).error)
        finally:
            peeks.close()


def test_no_more_than_a_few_peeks_run_at_a_time(peeks: Peeks) -> None:
    for _ in range(PARALLEL):
        assert peeks._free.acquire(blocking=False)
    assert "other peeks are under way" in peeks.look(Wanted("dc1", "clicks", 0)).error
    for _ in range(PARALLEL):
        peeks._free.release()
    assert offsets(peeks, count=1) == [49]


def test_brokers_that_are_down_are_told_in_words(tmp_path: Path) -> None:
    peeks = peeks_at("127.0.0.1:1", tmp_path)
    found = peeks.look(Wanted("dc1", "clicks", 0))
    assert "127.0.0.1:1" in found.error
    peeks.close()
    assert peeks.look(Wanted("dc1", "clicks", 0)).error
