"""Markers go to the leaders of their partitions, and again until each has them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping

import pytest
from replicated_shard import run

from tallymark.broker.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from tallymark.broker.requests.write_markers import uniform_answer
from tallymark.broker.transactions.sending import MarkerSender
from tallymark.errors import CODES, ConnectError
from tallymark.protocol.messages import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tallymark.testing.memory_connections import MemoryConnections
from tallymark.transactions.markers import Outcome

ME, OTHER = 1, 2


class Broker:
    """Answers with these codes in turn, then 0; an exception is raised."""

    def __init__(self, *codes: int | Exception) -> None:
        self.codes = list(codes)
        self.asked: list[WriteTxnMarkersRequest] = []

    async def __call__(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        self.asked.append(request)
        code = self.codes.pop(0) if self.codes else 0
        if isinstance(code, Exception):
            raise code
        return uniform_answer(request, code)


def image(leaders: Mapping[str, int]) -> MetadataImage:
    topics = {
        name: TopicImage(name, uuid.UUID(int=1), (PartitionImage.of(leader, 0, (1, 2), (1, 2)),))
        for name, leader in leaders.items()
    }
    return MetadataImage("c", 1, {ME: BrokerImage(ME, {}), OTHER: BrokerImage(OTHER, {})}, topics)


class Sending:
    def __init__(self, leaders: Mapping[str, int], here: Broker, there: Broker) -> None:
        self.image = image(leaders)
        self.connections = MemoryConnections({OTHER: there})
        self.sender = MarkerSender(ME, self.connections, lambda: self.image, here)
        self.completed: list[str] = []

    def begin(self, name: str, *topics: str) -> Outcome:
        partitions = frozenset((topic, 0) for topic in topics)
        outcome = Outcome(name, 7, 3, True, 5, 2, partitions)
        self.sender.begin(outcome, lambda done: self.completed.append(done.transactional_id))
        return outcome

    async def until(self, *names: str) -> None:
        while self.completed != list(names):
            await asyncio.sleep(0.002)


def test_own_partitions_are_written_without_a_connection_others_over_one() -> None:
    async def story() -> None:
        here, there = Broker(), Broker()
        sending = Sending({"a": ME, "b": OTHER}, here, there)
        sending.begin("id", "a", "b")
        await sending.until("id")
        (marker,) = there.asked[0].markers
        assert (marker.producer_id, marker.producer_epoch) == (7, 3)
        assert (marker.coordinator_epoch, marker.transaction_version) == (5, 2)
        assert marker.transaction_result
        assert [topic.name for topic in marker.topics] == ["b"]
        assert [topic.name for topic in here.asked[0].markers[0].topics] == ["a"]
        assert len(sending.sender) == 0
        await sending.sender.stop()

    run(story())


def test_an_error_a_broken_connection_and_a_fault_are_tried_again() -> None:
    async def story() -> None:
        not_leader = CODES["NOT_LEADER_OR_FOLLOWER"]
        here = Broker(not_leader, RuntimeError("a fault"), CODES["REQUEST_TIMED_OUT"])
        there = Broker(ConnectError("b", "request", "gone"), not_leader)
        sending = Sending({"a": ME, "b": OTHER}, here, there)
        sending.connections.refusing.add(OTHER)
        sending.begin("id", "a", "b")
        while len(here.asked) < 2:
            await asyncio.sleep(0.002)
        assert sending.sender.waiting() == {ME: 1, OTHER: 1}
        sending.connections.refusing.clear()
        await sending.until("id")
        assert (len(here.asked), len(there.asked)) == (4, 3)
        await sending.sender.stop()

    run(story())


def test_a_deleted_topic_counts_as_answered_and_a_missing_leader_is_waited_for() -> None:
    async def story() -> None:
        here = Broker()
        sending = Sending({"a": -1}, here, Broker())
        sending.begin("id", "a", "deleted")
        sending.begin("other", "deleted")
        await sending.until("other")
        assert here.asked == []
        sending.image = image({"a": ME})
        await sending.until("other", "id")
        await sending.sender.stop()

    run(story())


def test_an_outcome_without_partitions_is_complete_but_not_within_the_call() -> None:
    async def story() -> None:
        sending = Sending({}, Broker(), Broker())
        sending.begin("id")
        assert sending.completed == []
        await sending.until("id")
        await sending.sender.stop()

    run(story())


def test_what_another_coordinator_has_is_not_sent_again_nor_completed() -> None:
    async def story() -> None:
        gate = asyncio.Event()

        async def slow(request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
            await gate.wait()
            return await Broker()(request)

        sending = Sending({"a": ME}, Broker(), Broker())
        sending.sender = MarkerSender(ME, sending.connections, lambda: sending.image, slow)
        dropped = sending.begin("id", "a")
        await asyncio.sleep(0.01)
        sending.sender.drop([dropped])
        again = sending.begin("id", "a")  # the lead came back
        gate.set()
        await sending.until("id")
        assert again is not dropped
        assert len(sending.sender) == 0
        await sending.sender.stop()

    run(story())


def test_markers_that_wait_and_markers_that_are_given_up_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        fenced = CODES["TRANSACTION_COORDINATOR_FENCED"]
        sending = Sending({"a": OTHER, "b": -1}, Broker(), Broker(fenced))
        sending.begin("given-up", "a")
        sending.begin("waits", "b")
        assert sending.sender.waiting() == {OTHER: 1, -1: 1}
        while not sending.sender.given_up:
            await asyncio.sleep(0)
        assert sending.sender.waiting() == {-1: 1}
        await sending.sender.stop()
        (said,) = (each.message for each in caplog.records if each.levelname == "ERROR")
        assert "given up transactional_id='given-up' producer_id=7 epoch=3 partition=a-0" in said

    run(story())
