"""The fetcher: fills streams, resets positions, waits for what passes, ends at what stays."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from uuid import UUID

import pytest
from eventually import eventually

from tallymark.client.consuming.brokers import BrokerLink
from tallymark.client.consuming.fetcher import FetcherThread, FetchSettings
from tallymark.client.consuming.stream import Gate, Stream
from tallymark.client.consuming.subscription_state import PartitionProgress
from tallymark.client.core.metadata import TopicInfo
from tallymark.client.reading.fetched import Fetched, FetchSpec
from tallymark.client.reading.list_offsets import OffsetAnswered
from tallymark.client.reading.message import Gap
from tallymark.coordination.consumers.offsets import Position
from tallymark.errors import CODES, ConnectError, KafkaError, LogTruncatedError, TallymarkError
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark.protocol.topic_partition import EARLIEST, TopicPartition
from tallymark.testing.scripted_log import MemoryLog


class MemoryClient:
    """A fetch client over logs in memory. ``trouble`` is raised or answered, once each."""

    def __init__(self, servers: str = "h:1") -> None:
        self.servers = servers
        self.logs = {("t", partition): MemoryLog() for partition in range(3)}
        self.trouble: list[Exception] = []
        self.rounds = 0
        self.asked: list[FetchSpec] = []
        self.closed = False
        self.topic_id = UUID(int=1)

    def append(self, partition: int, count: int) -> None:
        log = self.logs["t", partition]
        data = encode_batch([(None, b"%d" % (log.end + i), (), 17) for i in range(count)])
        log.append(split_batches(data)[0])

    def expire(self, partition: int, batches: int) -> None:
        log = self.logs["t", partition]
        log.start = log.batches[batches - 1].header.next_offset
        del log.batches[:batches]

    def multifetch(
        self, specs: Sequence[FetchSpec], *, max_bytes: int, max_wait_ms: int, min_bytes: int
    ) -> list[Fetched | KafkaError]:
        self.rounds += 1
        self.asked = list(specs)
        if self.trouble and not isinstance(self.trouble[0], KafkaError):
            raise self.trouble.pop(0)
        answers = [self._fetch(spec) for spec in specs]
        if not any(isinstance(a, KafkaError) or a.batches for a in answers):
            time.sleep(0.005)  # a short "long poll"
        return answers

    def get_offsets_before(self, topic: str, partition: int, time: int) -> list[int]:
        if self.trouble:
            raise self.trouble.pop(0)
        log = self.logs[topic, partition]
        return [log.start if time == EARLIEST else log.end]

    def each_offset(
        self, places: Collection[TopicPartition], time: int, answered: OffsetAnswered
    ) -> None:
        for place in places:
            try:
                (offset,) = self.get_offsets_before(*place, time)
            except TallymarkError as error:
                answered(place, error)
            else:
                answered(place, offset)

    def topics(self) -> Mapping[str, TopicInfo]:
        return {"t": TopicInfo("t", self.topic_id, (0, 1, 2))}

    def close(self) -> None:
        self.closed = True

    def _fetch(self, spec: FetchSpec) -> Fetched | KafkaError:
        if self.trouble:
            error = self.trouble.pop(0)
            assert isinstance(error, KafkaError)
            return error
        topic, partition, offset, epoch = spec
        log = self.logs[topic, partition]
        if epoch >= 0 and (end := log.epoch_end(epoch)[1]) < offset:
            return LogTruncatedError(topic, partition, offset, end)
        if not log.start <= offset <= log.end:
            return KafkaError(CODES["OFFSET_OUT_OF_RANGE"], f"{topic}-{partition}")
        found = [b for b in log.batches if b.header.next_offset > offset][:1]
        following = found[-1].header.next_offset if found else offset
        last = found[-1].header.partition_leader_epoch if found else epoch
        known = (log.end, log.start, found, following, last)
        return Fetched(topic, partition, offset, *known, topic_id=self.topic_id)


class Setting:
    """A fetcher with two streams over a memory client."""

    def __init__(self, policy: str = "smallest") -> None:
        self.client = MemoryClient()
        self.made: list[MemoryClient] = []
        self.link = BrokerLink(self._make)
        self.gate = Gate()
        self.gate.open(0)
        self.room = threading.Event()
        self.streams = [Stream(self.gate, self.room, 2000) for _ in range(2)]
        self.gaps: list[Gap] = []
        self.errors: list[Exception] = []
        settings = FetchSettings(policy, 1 << 20, 10, 1, self.gaps.append)
        self.fetcher = FetcherThread(
            self.link, self.streams, self.gate, self.room, settings, self.errors.append
        )
        self.link.learn(["h:1"])

    def _make(self, servers: str) -> MemoryClient:
        self.made.append(self.client)
        self.client.servers = servers
        self.client.closed = False
        return self.client

    def own(self, *items: PartitionProgress) -> None:
        self.fetcher.assign(items)

    def offsets(self, count: int, stream: int = 0) -> list[int]:
        found: list[int] = []
        deadline = time.monotonic() + 60
        while len(found) < count:
            assert time.monotonic() < deadline, f"only {found} of {count} came"
            found += [m.offset for m in self.streams[stream].poll(0.05)]
        return found


@pytest.fixture
def its() -> Iterator[Setting]:
    setting = Setting()
    yield from running(setting)


@pytest.fixture
def its_largest() -> Iterator[Setting]:
    setting = Setting("largest")
    yield from running(setting)


def running(setting: Setting) -> Iterator[Setting]:
    setting.fetcher.start()
    yield setting
    setting.fetcher.stop()
    setting.link.close()
    assert setting.fetcher.join(30)


def test_partitions_go_to_their_streams(its: Setting) -> None:
    for partition in range(3):
        its.client.append(partition, 2)
    its.own(*(PartitionProgress("t", p, p % 2) for p in range(3)))
    assert sorted(its.offsets(4)) == [0, 0, 1, 1]
    assert its.offsets(2, stream=1) == [0, 1]
    its.client.append(0, 1)
    assert its.offsets(1) == [2]


def test_consumption_goes_on_at_the_stored_position(its: Setting) -> None:
    its.client.append(0, 5)
    its.own(PartitionProgress("t", 0, 0, Position(3, 0)))
    assert its.offsets(2) == [3, 4]


def test_largest_begins_at_the_end(its_largest: Setting) -> None:
    its_largest.client.append(0, 5)
    item = PartitionProgress("t", 0)
    its_largest.own(item)
    eventually(lambda: item.fetch is not None)
    its_largest.client.append(0, 1)
    assert its_largest.offsets(1) == [5]
    assert its_largest.gaps == []


def test_a_full_stream_does_not_hold_up_the_other(its: Setting) -> None:
    for _ in range(40):
        its.client.append(0, 10)
    its.own(PartitionProgress("t", 0, 0), PartitionProgress("t", 1, 1))
    eventually(lambda: not its.streams[0].has_room)
    its.client.append(1, 2)
    assert its.offsets(2, stream=1) == [0, 1]
    assert its.offsets(400) == list(range(400))


def test_expired_offsets_are_told(its: Setting) -> None:
    for _ in range(3):
        its.client.append(0, 2)
    its.client.expire(0, 2)
    its.own(PartitionProgress("t", 0, 0, Position(1)))
    assert its.offsets(2) == [4, 5]
    assert its.gaps == [Gap("t", 0, 1, 4, "expired")]


def test_expired_offsets_with_largest_go_to_the_end(its_largest: Setting) -> None:
    for _ in range(3):
        its_largest.client.append(0, 2)
    its_largest.client.expire(0, 1)
    its_largest.own(PartitionProgress("t", 0, 0, Position(1)))
    eventually(lambda: its_largest.gaps != [])
    its_largest.client.append(0, 1)
    assert its_largest.offsets(1) == [6]
    assert its_largest.gaps == [Gap("t", 0, 1, 6, "expired")]


@pytest.mark.parametrize("policy", ["smallest", "largest"])
def test_a_cut_log_is_told_and_read_again_from_the_cut(policy: str) -> None:
    """Records that stand where consumed ones were cut off are new ones: whatever the policy, none
    of them is left out."""
    for its in running(Setting(policy)):
        its.client.append(0, 2)
        its.client.append(0, 2)
        item = PartitionProgress("t", 0, 0, Position(0, 0))
        its.own(item)
        its.offsets(4)
        its.client.logs["t", 0].cut(2)
        its.client.append(0, 3)
        assert its.offsets(3) == [2, 3, 4]
        assert its.gaps == [Gap("t", 0, 2, 4, "truncated")]
        assert item.taken == Position(5, 1)


def test_a_cut_that_only_the_end_tells_of_goes_by_the_policy(its: Setting) -> None:
    its.client.append(0, 2)
    its.own(PartitionProgress("t", 0, 0, Position(9)))
    assert its.offsets(2) == [0, 1]
    assert its.gaps == [Gap("t", 0, 2, 9, "truncated")]


def test_a_callback_that_fails_changes_nothing() -> None:
    def fail(gap: Gap) -> None:
        raise ValueError(gap)

    setting = Setting()
    settings = FetchSettings("smallest", 1 << 20, 10, 1, fail)
    setting.fetcher = FetcherThread(
        setting.link, setting.streams, setting.gate, setting.room, settings, setting.errors.append
    )
    for its in running(setting):
        its.client.append(0, 2)
        its.own(PartitionProgress("t", 0, 0, Position(9)))
        assert its.offsets(2) == [0, 1]
        assert its.errors == []


def test_a_topic_that_was_made_again_is_read_from_its_start(its: Setting) -> None:
    """Of the same leader epoch, and longer than the position: nothing of the log shows it."""
    its.client.append(0, 3)
    item = PartitionProgress("t", 0, 0, Position(0))
    its.own(item)
    assert its.offsets(3) == [0, 1, 2]
    eventually(lambda: item.fetch is not None and item.fetch.offset == 3)
    its.client.topic_id = UUID(int=2)
    its.client.append(0, 2)
    assert its.offsets(5) == [0, 1, 2, 3, 4]
    assert its.gaps == [Gap("t", 0, 0, 3, "truncated")]


def test_a_shorter_topic_that_was_made_again_is_read_from_its_start_at_once(its: Setting) -> None:
    """It looked like a log that was cut at its end, and was read only when another message came."""
    its.client.append(0, 5)
    item = PartitionProgress("t", 0, 0, Position(0))
    its.own(item)
    assert its.offsets(5) == [0, 1, 2, 3, 4]
    eventually(lambda: item.fetch is not None and item.fetch.offset == 5)
    its.client.trouble = [LogTruncatedError("t", 0, 5, 3)]
    its.client.topic_id = UUID(int=2)
    assert its.offsets(5) == [0, 1, 2, 3, 4]
    assert its.gaps == [Gap("t", 0, 0, 5, "truncated")]


def test_what_passes_is_waited_for(its: Setting) -> None:
    its.client.trouble = [
        ConnectError("h:1", "connect", "refused"),
        KafkaError(CODES["NOT_LEADER_OR_FOLLOWER"], "t-0"),
        KafkaError(CODES["UNKNOWN_TOPIC_OR_PARTITION"], "t-0"),
        ConnectError("h:1", "connect", "refused"),
        KafkaError(CODES["CORRUPT_MESSAGE"], "t-0"),
    ]
    its.client.append(0, 2)
    its.own(PartitionProgress("t", 0, 0, Position(0)))
    assert its.offsets(2) == [0, 1]
    assert its.errors == []


def test_a_start_that_fails_holds_up_no_other_partition(its: Setting) -> None:
    its.client.append(1, 2)
    unknown = KafkaError(CODES["UNKNOWN_TOPIC_OR_PARTITION"], "t-0")
    its.client.trouble = [unknown]
    its.own(PartitionProgress("t", 0, 0), PartitionProgress("t", 1, 1))
    assert its.offsets(2, stream=1) == [0, 1]


@pytest.mark.parametrize("name", ["TOPIC_AUTHORIZATION_FAILED", "CORRUPT_MESSAGE"])
def test_what_stays_ends_it(its: Setting, name: str) -> None:
    its.client.trouble = [KafkaError(CODES[name], "t-0") for _ in range(10)]
    its.own(PartitionProgress("t", 0, 0, Position(0)))
    eventually(lambda: its.errors != [])
    assert isinstance(its.errors[0], KafkaError)
    assert its.errors[0].name == name
    assert its.fetcher.join(30)


def test_brokers_that_moved_are_found_again(its: Setting) -> None:
    its.own(PartitionProgress("t", 0, 0, Position(0)))
    eventually(lambda: its.client.rounds > 0)
    its.link.learn([])  # nobody registered: keep what worked
    its.link.learn(["h:3", "h:2"])
    assert len(its.made) == 1
    its.client.trouble = [ConnectError("h:1", "connect", "refused")]
    eventually(lambda: len(its.made) == 2)
    assert its.client.servers == "h:2,h:3"
    its.link.learn(["h:4"])
    its.client.trouble = [KafkaError(CODES["NETWORK_EXCEPTION"], "t-0")]
    eventually(lambda: len(its.made) == 3)
    assert its.client.servers == "h:4"


def test_nothing_is_fetched_while_suspended(its: Setting) -> None:
    its.own(PartitionProgress("t", 0, 0, Position(0)))
    eventually(lambda: its.client.rounds > 0)
    its.gate.suspend()
    time.sleep(0.5)
    rounds = its.client.rounds
    time.sleep(0.05)
    assert its.client.rounds == rounds
    its.gate.open(its.gate.mark())
    its.fetcher.wake()
    eventually(lambda: its.client.rounds > rounds)


def test_named_servers_are_kept() -> None:
    link = BrokerLink(MemoryClient, "named:1")
    link.learn(["h:1"])
    client = link.client()
    assert isinstance(client, MemoryClient)
    assert client.servers == "named:1"
    link.close()
    assert client.closed
    assert link.client() is None
