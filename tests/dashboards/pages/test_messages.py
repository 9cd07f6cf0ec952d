"""The page that peeks at messages, on a real broker and a real registry."""

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from fastapi.testclient import TestClient

from tallymark.client import Admin, Producer
from tallymark.client.producing.stamps import STAMP_HEADER, Stamp, encode_stamp
from tallymark.deployment import (
    BrokerAddress,
    Cluster,
    DashboardSettings,
    Deployment,
    RegistrySettings,
)
from tallymark.net.addresses import parse_address
from tallymark.protocol.api import ApiKey
from tallymark.serialization import AvroEncoder, RegistryClient
from tallymark.testing import MemoryBroker, ScriptedBroker
from tallymark.testing.scripted_broker import Late
from tallymark_audit.store import open_store
from tallymark_dashboards.app.application import create_app
from tallymark_dashboards.snapshots.cluster_watch import ClusterWatch
from tallymark_dashboards.snapshots.holder import Snapshots
from tallymark_schema_registry.testing import memory_registry

NOON = 1_767_268_800_000
SCHEMA = """{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "email", "type": "string"},
    {"name": "raw", "type": "bytes"}]}"""
STAMP = Stamp(bytes(range(8)), 3, 4_711, "web-<b>7")


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with MemoryBroker(auto_create_topics_enable=False) as broker, memory_registry() as registry:
        fill(broker.bootstrap_servers, registry.url)
        place = parse_address(broker.bootstrap_servers)
        address = BrokerAddress(host=place.host, port=place.port)
        yield Deployment(
            data_dir=tmp_path_factory.mktemp("messages"),
            clusters=(
                Cluster(name="dc1", brokers=(address,)),
                Cluster(name="down", brokers=(BrokerAddress(port=1),)),
            ),
            mirrors=(),
            registry=RegistrySettings(port=int(registry.url.rpartition(":")[2])),
            dashboards=DashboardSettings(masked_fields=("orders:email",)),
        )


def fill(servers: str, registry_url: str) -> None:
    with Admin(bootstrap_servers=servers) as admin, RegistryClient(registry_url) as registry:
        for topic in ("clicks", "orders", "empty"):
            admin.create_topic(topic, 2)
        encode = AvroEncoder(registry, SCHEMA)
        with Producer(bootstrap_servers=servers, audit=False) as producer:
            headers = [(STAMP_HEADER, encode_stamp(STAMP)), ("trace", b"<i>1</i>")]
            for number in range(60):
                value = f'{{"n": {number}, "html": "<script>alert({number})</script>"}}'.encode()
                producer.send(
                    "clicks", value, key=f"k{number}".encode(), partition=0,
                    timestamp=NOON + number * 1000, headers=headers,
                )  # fmt: skip
            producer.send("clicks", None, key=b"gone", partition=0, timestamp=NOON + 60_000)
            producer.send("clicks", b"\xff\xfe\x00", partition=0, timestamp=NOON + 61_000)
            order = {"id": 5, "email": "ann@example.org", "raw": b"\xca\xfe"}
            avro = encode("orders", order)
            producer.send("orders", avro, partition=0, timestamp=NOON)
            producer.send("orders", b"email=ann@example.org", partition=0, timestamp=NOON)
            producer.send("clicks", avro, partition=1, timestamp=NOON)


@pytest.fixture(scope="module")
def shown(deployment: Deployment) -> Iterator[TestClient]:
    snapshots = Snapshots.of(deployment)
    watch = ClusterWatch(deployment.clusters[0], "", lambda: NOON, lambda: None)
    assert watch.look(10_000)
    snapshots.put(watch.state)
    watch.close()
    with (
        open_store(deployment.audit_store) as store,
        TestClient(create_app(deployment, store, snapshots)) as client,
    ):
        yield client


def text(client: TestClient, query: str, status: int = 200) -> str:
    answer = client.get(f"/messages?{query}")
    assert answer.status_code == status
    return answer.text.partition("<main")[2]


def test_without_a_topic_the_topics_of_the_cluster_are_offered(shown: TestClient) -> None:
    page = text(shown, "")
    assert "topic=clicks" in page
    assert "topic=orders" not in text(shown, "q=click")


def test_the_newest_messages_with_stamp_key_headers_and_value(shown: TestClient) -> None:
    page = text(shown, "cluster=dc1&topic=clicks")
    assert page.count('<article class="message"') == 20
    assert "web-&lt;b&gt;7" in page
    assert "<b>4,711</b>" in page
    assert "0001020304050607" in page
    assert "&lt;i&gt;1&lt;/i&gt;" in page
    assert "alert(59)" in page
    assert "<script>alert" not in page
    assert "ff fe 00" in page
    assert "it deletes its key" in page
    assert "its window" in page


def test_by_offset_and_by_time_with_ways_back_and_on(shown: TestClient) -> None:
    page = text(shown, "cluster=dc1&topic=clicks&offset=30&count=20")
    assert 'id="offset-30"' in page
    assert 'id="offset-50"' not in page
    assert "offset=10&amp;count=20" in page
    assert "offset=50&amp;count=20" in page
    by_time = text(shown, "cluster=dc1&topic=clicks&time=2026-01-01T12:00:30Z")
    assert 'id="offset-30"' in by_time
    first = text(shown, "cluster=dc1&topic=clicks&offset=0")
    assert "← older" not in first
    assert "newer →" in first


def test_avro_is_decoded_and_masked_fields_are_not_shown(shown: TestClient) -> None:
    plain = text(shown, "cluster=dc1&topic=clicks&partition=1")
    assert "ann@example.org" in plain
    assert "0xcafe" in plain
    assert "schema 1" in plain
    masked = text(shown, "cluster=dc1&topic=orders")
    assert "ann@example.org" not in masked
    assert "616e6e" not in masked.replace(" ", "")
    assert "1 fields masked" in masked
    assert "neither Avro nor JSON" in masked
    assert "&#34;id&#34;: 5" in masked


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("cluster=dc1&topic=clicks&offset=900", "holds the offsets 0 to 61"),
        ("cluster=dc1&topic=empty", "is empty"),
        ("cluster=down&topic=clicks", "127.0.0.1:1"),
        ("cluster=dc1&topic=clicks&offset=abc", "offset=abc is no number"),
        ("cluster=dc1&topic=clicks&offset=-4", "below 0"),
        ("cluster=dc1&topic=clicks&time=yesterday", "time=yesterday is no time"),
        ("cluster=dc1&topic=clicks&count=99999", "count=99,999"),
        ("cluster=down", "not known"),
    ],
)
def test_what_cannot_be_shown_is_told(shown: TestClient, query: str, said: str) -> None:
    assert said in text(shown, query)


def test_what_is_not_there_is_a_page_with_the_nearest_names(shown: TestClient) -> None:
    assert "topic=clicks" in text(shown, "cluster=dc1&topic=click", 404)
    page = text(shown, "cluster=dc1&topic=clicks&partition=7", 404)
    assert "has 2 partitions, 0 to 1" in page
    assert "partition=1" in page
    assert "cluster=dc1" in text(shown, "cluster=dc9&topic=x", 404)
    assert "<script>" not in text(shown, "cluster=dc1&topic=%3Cscript%3E", 404)


def test_without_a_registry_messages_are_shown_as_they_are(
    deployment: Deployment, tmp_path: Path
) -> None:
    """And the page waits for it once, not for each message."""
    alone = deployment.model_copy(
        update={"registry": RegistrySettings(port=1), "data_dir": tmp_path}
    )
    with (
        open_store(alone.audit_store) as store,
        TestClient(create_app(alone, store)) as client,
    ):
        page = client.get("/messages?cluster=dc1&topic=clicks&partition=1").text
    assert "not decoded" in page
    assert "hex" in page


def test_a_broker_that_does_not_answer_holds_up_no_other_page(tmp_path: Path) -> None:
    """Pages that are rendered wait for each other, so that each is rendered once; a peek held all
    that happened to wait for the same lock for seconds."""
    with ScriptedBroker({"clicks": 1}) as broker:
        broker.script(ApiKey.METADATA, *[Late(60)] * 50)
        place = parse_address(broker.address)
        address = BrokerAddress(host=place.host, port=place.port)
        slow = Deployment(
            data_dir=tmp_path, clusters=(Cluster(name="dc1", brokers=(address,)),), mirrors=()
        )
        with (
            open_store(slow.audit_store) as store,
            TestClient(create_app(slow, store)) as client,
        ):
            client.get("/groups")
            waiting = Thread(target=client.get, args=("/messages?cluster=dc1&topic=clicks",))
            waiting.start()
            try:
                for number in range(40):  # more than there are locks
                    assert client.get(f"/groups?q={number}").status_code == 200
                assert waiting.is_alive()
            finally:
                waiting.join(30)
            assert not waiting.is_alive()


def test_messages_as_csv_and_json_are_those_of_the_page(shown: TestClient) -> None:
    page = text(shown, "cluster=dc1&topic=clicks&offset=30&count=20")
    href = "/api/v1/messages?cluster=dc1&topic=clicks&partition=0&offset=30&limit=20"
    assert href.replace("&", "&amp;") in page
    told = shown.get(href).json()
    assert [one["offset"] for one in told["messages"]] == list(range(30, 50))
    assert (told["log_start"], told["log_end"], told["said"]) == (0, 62, "")
    assert '"n": 30' in told["messages"][0]["value"]
    assert (told["messages"][0]["server"], told["messages"][0]["sequence"]) == ("web-<b>7", 4_711)
    rest = shown.get(f"{href}&cursor={told['next']}").json()
    assert [one["offset"] for one in rest["messages"]] == list(range(50, 62))
    assert rest["next"] is None
    assert rest["messages"][10]["value"] == ""  # a null, which deletes its key
    answer = shown.get(href.replace("/messages?", "/messages.csv?"))
    assert len(answer.text.splitlines()) == 21
    assert "cursor=" in answer.headers["link"]


def test_a_look_by_the_api_is_bounded_and_masked(shown: TestClient) -> None:
    """CSV has all rows of a list; of a log with a billion messages that would be all of them."""
    at = "/api/v1/messages.csv?cluster=dc1&topic=clicks"
    assert len(shown.get(at).text.splitlines()) == 21
    assert len(shown.get(f"{at}&offset=0&limit=1000").text.splitlines()) == 63
    orders = shown.get("/api/v1/messages?cluster=dc1&topic=orders").text
    assert "example.org" not in orders
    assert "0xcafe" in orders
    beyond = shown.get("/api/v1/messages?cluster=dc1&topic=clicks&offset=1000").json()
    assert beyond["messages"] == []
    assert "there is no offset 1,000" in beyond["said"]
    assert shown.get("/api/v1/messages?cluster=dc1&topic=nothing").status_code == 404
    assert shown.get("/api/v1/messages?cluster=dc1&topic=clicks&partition=9").status_code == 404
    away = shown.get("/api/v1/messages?cluster=down&topic=clicks")
    assert away.status_code == 503
    assert away.headers["retry-after"]
