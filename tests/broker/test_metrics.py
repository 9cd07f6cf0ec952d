"""What the broker counts, and how it is told: /metrics, /health, the counters themselves."""

from __future__ import annotations

import asyncio
import json
import socket
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from admin_wire import create, describe, fresh
from prometheus_client.parser import text_string_to_metric_families

from tallymark.broker.metrics.counters import (
    BOUNDS,
    OTHER_TOPICS,
    ApiMetrics,
    BrokerMetrics,
    FollowersNow,
)
from tallymark.broker.metrics.error_codes import error_codes
from tallymark.broker.monitoring.loop_lag import LoopLag
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, UserError
from tallymark.net.web.metrics_http import MetricsServer, Page
from tallymark.protocol.api import ApiKey
from tallymark.protocol.messages import (
    DescribeClusterResponse,
    DescribeConfigsResponse,
    DescribeConfigsResponseResult,
    DescribeLogDirsRequest,
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FindCoordinatorRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from tallymark.protocol.records.batch import encode_batch
from tallymark.replication.throttle import ReplicationThrottle
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.memory_files import MemoryFiles
from tallymark.testing.wire import WireClient

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    folder = tmp_path_factory.mktemp("data")
    with BrokerThread(folder, metrics_port=0, metrics_max_topics=3) as running:
        yield running


def state_of(broker: BrokerThread) -> BrokerState:
    assert broker.broker is not None
    assert broker.broker.state is not None
    return broker.broker.state


def get(broker: BrokerThread, path: str, method: str = "GET") -> tuple[int, str, str]:
    """Status, content type, body."""
    assert broker.broker is not None
    request = urllib.request.Request(f"http://{broker.broker.metrics_address}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def scrape(broker: BrokerThread) -> Samples:
    status, content_type, body = get(broker, "/metrics")
    assert status == 200
    assert content_type.startswith("text/plain; version=")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(body)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[f"tallymark_broker_{name}", frozenset(labels.items())]


def produce(
    wire: WireClient, topic: str, count: int, partition: int = 0, key: bytes | None = None
) -> tuple[int, int]:
    """Error code, and the bytes of the batch."""
    batch = encode_batch([(key, b"v" * 10, (), 1000 + n) for n in range(count)])
    part = ProduceRequestPartition(index=partition, records=batch)
    topics = [ProduceRequestTopic(name=topic, partition_data=[part])]
    answer = wire.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), 9)
    return answer.responses[0].partition_responses[0].error_code, len(batch)


def fetch_request(topic: str, offset: int, wait_ms: int = 0) -> FetchRequest:
    part = FetchRequestPartition(partition=0, fetch_offset=offset, partition_max_bytes=10_000)
    topics = [FetchRequestTopic(topic=topic, partitions=[part])]
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=10_000, topics=topics)


# --- over a real socket


def test_requests_are_counted_by_api_and_error(broker: BrokerThread, wire: WireClient) -> None:
    topic = fresh()
    create(wire, topic)
    before = scrape(broker)
    assert produce(wire, topic, 3)[0] == 0
    assert produce(wire, topic, 3, partition=7)[0] != 0
    describe(wire, 2, "nowhere")
    after = scrape(broker)

    def grown(name: str, **labels: str) -> float:
        return value(after, name, **labels) - before.get(
            (f"tallymark_broker_{name}", frozenset(labels.items())), 0.0
        )

    assert grown("requests_total", api="produce") == 2
    assert grown("requests_total", api="describe_configs") == 1
    unknown = "UNKNOWN_TOPIC_OR_PARTITION"
    assert grown("errors_total", api="produce", error=unknown) == 1
    assert grown("errors_total", api="describe_configs", error=unknown) == 1
    assert grown("request_seconds_count", api="produce") == 2
    assert grown("request_seconds_bucket", api="produce", le="+Inf") == 2
    assert grown("request_seconds_sum", api="produce") > 0
    assert grown("request_bytes_total", api="produce") > 200
    assert grown("response_bytes_total", api="produce") > 50


def test_traffic_is_counted_by_topic_up_to_a_cap(tmp_path: Path) -> None:
    with (
        BrokerThread(tmp_path, metrics_port=0, metrics_max_topics=2) as broker,
        WireClient(broker.bootstrap_servers) as wire,
    ):
        for number in range(4):
            create(wire, f"t{number}", 2)
            _, size = produce(wire, f"t{number}", 5, partition=1)
        wire.ask(fetch_request("t0", 0), 11)
        found = scrape(broker)
        assert value(found, "topic_received_messages_total", topic="t0") == 5
        assert value(found, "topic_received_bytes_total", topic="t1") == size
        assert value(found, "topic_received_messages_total", topic=OTHER_TOPICS) == 10
        assert value(found, "topic_log_bytes", topic="t0") == size
        assert value(found, "topic_log_bytes", topic=OTHER_TOPICS) == 2 * size
        labels = {dict(key[1]).get("topic") for key in found}
        assert labels == {None, "t0", "t1", OTHER_TOPICS}
        assert value(found, "partitions", state="led") == 8
        assert value(found, "cluster_topics") == 4
        assert value(found, "unflushed_messages") == 20


def test_what_is_copied_from_leaders_is_told(broker: BrokerThread, wire: WireClient) -> None:
    state, topic = state_of(broker), fresh()
    state.metrics.keep(())
    create(wire, topic)
    assert value(scrape(broker), "followed_partitions") == 0
    state.metrics.topic(topic).replicated_bytes += 77
    aside = Counter({"CORRUPT_MESSAGE": 2})
    state.metrics.following = lambda: FollowersNow(3, 1, 40, aside, 9)
    leading, following = ReplicationThrottle(1_000, 0), ReplicationThrottle(None, 0)
    leading.charge(55, 0)
    state.metrics.throttles = {"leader": leading, "follower": following}
    try:
        found = scrape(broker)
    finally:
        state.metrics.following, state.metrics.throttles = None, {}
    assert value(found, "throttled_replication_bytes_total", role="leader") == 55
    assert value(found, "throttled_replication_bytes_total", role="follower") == 0
    assert value(found, "throttled_replication_rate_bytes", role="leader") == 1_000
    rates = [key for key in found if key[0].endswith("throttled_replication_rate_bytes")]
    assert len(rates) == 1, "one that is not set is not told"
    assert value(found, "topic_replicated_bytes_total", topic=topic) == 77
    assert value(found, "replica_fetchers", state="disconnected") == 1
    assert value(found, "followed_partitions") == 40
    assert value(found, "replicas_set_aside", error="CORRUPT_MESSAGE") == 2
    assert value(found, "replica_max_lag_messages") == 9


def test_bytes_that_readers_get_are_counted(broker: BrokerThread, wire: WireClient) -> None:
    state, topic = state_of(broker), fresh()
    state.metrics.keep(())
    create(wire, topic)
    _, size = produce(wire, topic, 5)
    wire.ask(fetch_request(topic, 0), 11)
    wire.ask(fetch_request(topic, 5), 11)
    assert value(scrape(broker), "topic_sent_bytes_total", topic=topic) == size


def test_connections_and_parked_fetches(broker: BrokerThread, wire: WireClient) -> None:
    topic = fresh()
    create(wire, topic)
    before = scrape(broker)
    assert value(before, "connections") == 1
    assert value(before, "parked_fetches") == 0
    with WireClient(broker.bootstrap_servers) as reader:
        reader.send(fetch_request(topic, 0, wait_ms=30_000), 11)
        partition = state_of(broker).partitions.find(topic, 0)
        while not partition.waiting:
            time.sleep(0.01)
        during = scrape(broker)
        assert value(during, "connections") == 2
        assert value(during, "parked_fetches") == 1
        produce(wire, topic, 1)
        reader.frame()
    assert value(scrape(broker), "parked_fetches") == 0


def test_nonsense_is_counted(broker: BrokerThread, wire: WireClient) -> None:
    before = value(scrape(broker), "bad_requests_total")
    for body in (b"\x7f\xff\x00\x00" + b"\x00" * 8, b"\x00\x03\x00\x7f" + b"\x00" * 8):
        with WireClient(broker.bootstrap_servers) as other:
            other.send_bytes(len(body).to_bytes(4, "big") + body)
            assert other.closed_by_peer()
    assert value(scrape(broker), "bad_requests_total") == before + 2


def test_an_error_of_the_broker_is_counted(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = value(scrape(broker), "failed_requests_total")
    state = state_of(broker)
    monkeypatch.setattr(state, "authorizer", None)
    with WireClient(broker.bootstrap_servers) as other, pytest.raises(ConnectionError):
        describe(other, 2, "t")
    monkeypatch.undo()
    assert value(scrape(broker), "failed_requests_total") == before + 1
    assert "its connection is closed" in caplog.text


def test_denials_are_counted(tmp_path: Path) -> None:
    with (
        BrokerThread(tmp_path, metrics_port=0, authorizer_enable=True) as broker,
        WireClient(broker.bootstrap_servers) as wire,
    ):
        assert describe(wire, 2, "t").error_code == CODES["TOPIC_AUTHORIZATION_FAILED"]
        found = scrape(broker)
        assert value(found, "denials_total", operation="DESCRIBE_CONFIGS", resource="TOPIC") == 1


def test_held_back_requests_and_log_ins_are_counted(broker: BrokerThread) -> None:
    state = state_of(broker)
    state.security.throttled[ApiKey.PRODUCE] += 2
    state.logins.counts["failed"] += 3
    found = scrape(broker)
    assert value(found, "throttled_requests_total", api="produce") == 2
    assert value(found, "logins_total", outcome="failed") == 3


@pytest.mark.process
def test_upkeep_and_groups_are_counted(tmp_path: Path) -> None:
    with (
        BrokerThread(
            tmp_path,
            metrics_port=0,
            log_cleaner_backoff_ms=20,
            log_flush_scheduler_interval_ms=10,
            log_retention_check_interval_ms=20,
        ) as broker,
        WireClient(broker.bootstrap_servers) as wire,
    ):
        one = {"segment.bytes": "1024", "flush.messages": "1", "retention.bytes": "0"}
        create(wire, "old", configs=one)
        many = {"segment.bytes": "1024", "cleanup.policy": "compact"}
        create(wire, "keyed", configs={**many, "min.cleanable.dirty.ratio": "0.01"})
        for _ in range(30):
            produce(wire, "old", 20)
            produce(wire, "keyed", 20, key=b"k")
        commit = OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=-1,
            topics=[
                OffsetCommitRequestTopic(
                    name="old",
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
                    ],
                )
            ],
        )
        wire.ask(FindCoordinatorRequest(key="g"), 2)
        while wire.ask(commit, 5).topics[0].partitions[0].error_code:
            time.sleep(0.05)
        wanted = {"flushes_total", "retention_segments_total", "cleaner_runs_total"}
        deadline = time.monotonic() + 30
        while True:
            found = scrape(broker)
            missing = [name for name in wanted if not value(found, name)]
            if not missing or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        assert missing == []
        assert value(found, "flush_seconds_total") > 0
        assert value(found, "cleaner_removed_records_total") > 100
        assert value(found, "flush_failures_total") == 0
        assert value(found, "cleaner_failures_total") == 0
        assert value(found, "groups", state="Empty") == 1


def test_a_failed_disk_is_told_and_the_other_goes_on(tmp_path: Path) -> None:
    files = MemoryFiles()
    folders = (tmp_path / "a", tmp_path / "b")
    with (
        BrokerThread(tmp_path, files=files, log_dirs=folders, metrics_port=0) as broker,
        WireClient(broker.bootstrap_servers) as wire,
    ):
        create(wire, "t", 2)
        before = wire.ask(DescribeLogDirsRequest(), 4)
        assert [folder.error_code for folder in before.results] == [0, 0]
        lost = next(
            index
            for folder in before.results
            if folder.log_dir == str(folders[1])
            for topic in folder.topics
            for index in [topic.partitions[0].partition_index]
        )
        files.break_disk(str(folders[1]))
        assert produce(wire, "t", 1, lost)[0] == CODES["KAFKA_STORAGE_ERROR"]
        assert produce(wire, "t", 1, 1 - lost)[0] == 0
        good, bad = wire.ask(DescribeLogDirsRequest(), 4).results
        assert (good.error_code, good.log_dir) == (0, str(folders[0]))
        assert (bad.error_code, bad.log_dir) == (CODES["KAFKA_STORAGE_ERROR"], str(folders[1]))
        assert list(bad.topics) == []
        assert (bad.total_bytes, bad.usable_bytes) == (-1, -1)
        status, _, body = get(broker, "/health")
        assert (status, json.loads(body)["offline_log_dirs"]) == (200, [str(folders[1])])
        found = scrape(broker)
        assert value(found, "offline_log_dirs") == 1
        assert value(found, "partitions", state="led") == 1
        assert value(found, "partitions", state="offline") == 1


def test_the_process_tells_about_itself(broker: BrokerThread) -> None:
    found = scrape(broker)
    names = {name for name, _ in found}
    assert {"process_resident_memory_bytes", "process_cpu_seconds_total"} <= names
    assert {"python_gc_collections_total", "tallymark_build_info"} <= names


def test_names_and_labels_are_as_prometheus_wants_them(broker: BrokerThread) -> None:
    _, _, body = get(broker, "/metrics")
    families = list(text_string_to_metric_families(body))
    ours = [family for family in families if family.name.startswith("tallymark_")]
    assert len(ours) > 20
    assert len({family.name for family in ours}) == len(ours)
    for family in ours:
        assert family.documentation.endswith("."), family.name
        labels = {name for sample in family.samples for name in sample.labels}
        allowed = {
            *("api", "error", "le", "state", "status", "topic", "operation", "outcome", "resource"),
            *("version", "node_id", "cluster_id", "role"),
        }
        assert labels <= allowed


# --- the pages


def test_health(broker: BrokerThread) -> None:
    status, content_type, body = get(broker, "/health")
    assert (status, content_type) == (200, "application/json")
    assert json.loads(body) == {"status": "ready", "node_id": 0, "offline_log_dirs": []}
    state = state_of(broker)
    state.stopping.set()
    try:
        status, _, body = get(broker, "/health")
        assert (status, json.loads(body)["status"]) == (503, "stopping")
    finally:
        state.stopping.clear()
    state.serving.clear()
    try:
        status, _, body = get(broker, "/health")
        assert (status, json.loads(body)["status"]) == (503, "starting")
    finally:
        state.serving.set()
    assert value(scrape(broker), "status", status="ready") == 1


def test_other_pages_and_methods(broker: BrokerThread) -> None:
    assert get(broker, "/")[0] == 404
    assert get(broker, "/metrics?x=1")[0] == 200
    assert get(broker, "/metrics", "POST")[0] == 405
    status, _, body = get(broker, "/health", "HEAD")
    assert (status, body) == (200, "")


@pytest.mark.parametrize(
    "sent", [b"\r\n\r\n", b"GET\r\n\r\n", b"GET /metrics\r\n\r\n", b"\xff\xfe \x00 \x01\r\n\r\n"]
)
def test_nonsense_gets_an_error_or_nothing(broker: BrokerThread, sent: bytes) -> None:
    assert broker.broker is not None
    address = broker.broker.metrics_address
    assert address is not None
    with socket.create_connection((address.host, address.port), 10) as client:
        client.sendall(sent)
        assert client.recv(100).startswith(b"HTTP/1.1 400 ")


def test_a_head_without_end_costs_a_bounded_amount(broker: BrokerThread) -> None:
    assert broker.broker is not None
    address = broker.broker.metrics_address
    assert address is not None
    with socket.create_connection((address.host, address.port), 10) as client:
        try:
            for _ in range(1000):
                client.sendall(b"x" * 1000)
            assert client.recv(1) == b""
        except OSError:
            pass  # closed while we were sending
    assert get(broker, "/health")[0] == 200


def test_off_unless_asked_for(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker:
        assert broker.broker is not None
        assert broker.broker.metrics_address is None


def test_that_other_machines_can_look_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The metrics name every topic; it was enough to set an address to show them to everybody."""
    shown: dict[str, Any] = {"metrics_port": 0, "metrics_host": "0.0.0.0"}
    with pytest.raises(UserError, match=r"/metrics on 0\.0\.0\.0 .* without TLS and log-in"):
        BrokerThread(tmp_path, **shown).start()
    with BrokerThread(tmp_path, listeners_allow_plaintext=True, **shown):
        pass
    assert "/metrics can be reached by other machines without TLS and log-in" in caplog.text


def test_a_port_that_is_taken_is_told(broker: BrokerThread, tmp_path: Path) -> None:
    assert broker.broker is not None
    assert broker.broker.metrics_address is not None
    taken = broker.broker.metrics_address.port
    with pytest.raises(UserError, match=r"metrics.*metrics\.port"):
        BrokerThread(tmp_path, metrics_port=taken).start()


def test_a_page_that_fails_is_an_error_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    async def broken() -> Page:
        raise RuntimeError("no")

    async def ask() -> bytes:
        server = MetricsServer({"/x": broken})
        await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(b"GET /x HTTP/1.1\r\n\r\n")
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        await server.stop()
        return answer

    assert asyncio.run(ask()).startswith(b"HTTP/1.1 500 ")
    assert "/x cannot be answered" in caplog.text


@pytest.mark.slow
def test_a_loop_that_is_held_up_is_late() -> None:
    async def hold_up() -> float:
        lag = LoopLag()
        lag.start()
        await asyncio.sleep(0)
        time.sleep(0.4)
        while not lag.worst:
            await asyncio.sleep(0.01)
        await lag.stop()
        return lag.worst

    assert asyncio.run(hold_up()) >= 0.1


# --- the counters


def test_latencies_fall_into_their_buckets() -> None:
    api = ApiMetrics(ApiKey.PRODUCE)
    for seconds in (0.0, BOUNDS[0], BOUNDS[0] + 1e-9, BOUNDS[-1], 11.0, 1e9):
        api.answered(seconds, 10)
    assert api.buckets == [2, 1, *[0] * (len(BOUNDS) - 3), 1, 2]
    assert api.sent_bytes == 60
    assert list(BOUNDS) == sorted(BOUNDS)


def test_topics_beyond_the_cap_share_a_label() -> None:
    metrics = BrokerMetrics(max_topics=2)
    one, two, three = (metrics.topic(name) for name in ("a", "b", "c"))
    assert metrics.topic("a") is one
    assert metrics.topic("d") is three
    assert [metrics.label(name) for name in ("a", "c")] == ["a", OTHER_TOPICS]
    assert [label for label, _ in metrics.topics()] == ["a", "b"]
    three.received_bytes += 1
    assert metrics.topics() == [("a", one), ("b", two), (OTHER_TOPICS, three)]
    metrics.keep({"b"})
    assert metrics.topic("c") is not three
    assert metrics.label("c") == "c"


def test_error_codes_are_found_wherever_they_are() -> None:
    assert error_codes(DescribeClusterResponse(error_code=7, cluster_id="", brokers=[])) == [7]
    results = [
        DescribeConfigsResponseResult(
            error_code=code, resource_type=2, resource_name="", configs=[]
        )
        for code in (3, 0, 40, 3)
    ]
    found = error_codes(DescribeConfigsResponse(results=results))
    assert found == [CODES["UNKNOWN_TOPIC_OR_PARTITION"], 40, 3]
    assert error_codes(DescribeConfigsResponse(results=[])) == []
