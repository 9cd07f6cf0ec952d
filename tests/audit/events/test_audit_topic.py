"""The audit topic, from the side of who writes there."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future

import pytest

from tallymark.errors import CODES, KafkaError
from tallymark_audit.events.audit_topic import RETRY_MS, AuditTopic, is_too_large


class Cluster:
    """Takes requests for topics, and answers by hand."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, Mapping[str, str]]] = []
        self.future: Future[bool] = Future()

    def create(self, name: str, partitions: int, configs: Mapping[str, str]) -> Future[bool]:
        self.asked.append((name, partitions, configs))
        self.future = Future()
        return self.future


def test_is_asked_for_once_and_found_when_it_is_there() -> None:
    cluster = Cluster()
    topic = AuditTopic(cluster.create, retention_ms=77)
    assert not topic.ready(0)
    assert not topic.ready(10**9)
    assert cluster.asked == [
        ("_tallymark_audit", 1, {"cleanup.policy": "delete", "retention.ms": "77"})
    ]
    cluster.future.set_result(False)  # it was there
    assert topic.ready(1)
    assert topic.ready(10**9)
    assert len(cluster.asked) == 1


@pytest.mark.parametrize("refused", [KafkaError(CODES["POLICY_VIOLATION"]), None])
def test_is_asked_for_again_after_a_while(
    refused: KafkaError | None, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster()
    topic = AuditTopic(cluster.create)
    now = 0
    for _ in range(3):
        assert not topic.ready(now)
        if refused:
            cluster.future.set_exception(refused)
        else:
            cluster.future.cancel()
        assert not topic.ready(now)
        assert not topic.ready(now + RETRY_MS - 1)
        now += RETRY_MS
    assert len(cluster.asked) == 3
    assert caplog.text.count("cannot be made, will try again") == 1
    topic.ready(now)
    cluster.future.set_exception(KafkaError(CODES["TOPIC_ALREADY_EXISTS"]))
    assert topic.ready(now)


def test_a_report_that_is_too_large_is_told_from_other_trouble() -> None:
    assert is_too_large(KafkaError(CODES["MESSAGE_TOO_LARGE"]))
    assert not is_too_large(KafkaError(CODES["POLICY_VIOLATION"]))
    assert not is_too_large(ConnectionError())
    assert not is_too_large(None)
