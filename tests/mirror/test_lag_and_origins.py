"""How far a mirror says it is behind; whom it takes for a mirror."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.errors import CODES, KafkaError
from tallymark.mirror.monitoring.lag import Copied, MirrorState, lags_of
from tallymark.mirror.monitoring.metrics import families
from tallymark.mirror.progress import CopyProgress
from tallymark.mirror.target.loop_guard import NONE, LoopGuard, announcement
from tallymark.protocol.records.batch import Record

P, Q, R = ("clicks", 0), ("clicks", 1), ("views", 0)


def test_lag_is_what_is_not_acknowledged() -> None:
    progress = CopyProgress()
    progress.begin(P, 100).sent(100, 0, 5_000, 140)
    progress.begin(Q, 50)
    copied = {P: Copied(10, 2_000)}
    ends = {P: 160, Q: 50}
    (p, q, r) = lags_of([P, Q, R], progress, ends, {P: 6_000}, copied, now_ms=9_000)
    assert (p.next_offset, p.end, p.records, p.size, p.seconds) == (100, 160, 60, 12_000, 4.0)
    assert (q.records, q.size, q.seconds) == (0, 0, 0.0)
    assert (r.next_offset, r.end, r.records) == (-1, -1, 0), "not begun yet"
    (p,) = lags_of([P], progress, ends, {}, {}, now_ms=4_000)
    assert (p.size, p.seconds) == (None, 0.0), "a clock that went back"


def test_metrics_leave_out_what_is_not_known() -> None:
    progress = CopyProgress()
    progress.begin(P, 0)
    lags = lags_of([P], progress, {P: 7}, {}, {}, now_ms=0)
    state = MirrorState("a-to-b", copied=3, gaps={"aborted": 4}, lags=lags)
    assert (state.lag, state.seconds) == (7, 0.0)
    found = {family.name: family.samples for family in families([state])}
    assert [sample.value for sample in found["tallymark_mirror_lag_records"]] == [7]
    assert found["tallymark_mirror_lag_bytes"] == []
    assert found["tallymark_mirror_lag_seconds"] == []
    (gaps,) = found["tallymark_mirror_gaps"]
    assert (gaps.labels, gaps.value) == ({"mirror": "a-to-b", "reason": "aborted"}, 4)
    (copied,) = found["tallymark_mirror_records_copied"]
    assert (copied.name, copied.value) == ("tallymark_mirror_records_copied_total", 3)


class Log:
    """A cluster's announcements, and how often it was asked."""

    def __init__(self) -> None:
        self.records: list[Record] | None = None
        self.asked = 0
        self.trouble: KafkaError | None = None

    def announce(self, producer_id: int, *origin: str) -> None:
        self.records = self.records or []
        key, value = announcement(producer_id, "m", frozenset(origin))
        self.records.append(Record(len(self.records), 0, key, value, ()))

    def end_offsets(self, topic: str) -> dict[int, int]:
        self.asked += 1
        if self.trouble is not None:
            raise self.trouble
        if self.records is None:
            raise KafkaError(CODES["UNKNOWN_TOPIC_OR_PARTITION"], topic)
        return {0: len(self.records)}

    def start_offsets(self, topic: str) -> dict[int, int]:
        return {0: 0}

    def fetch(self, topic: str, partition: int, offset: int) -> Any:
        found = (self.records or [])[offset : offset + 2]

        class Answer:
            next_offset = offset + len(found)

            def records(self) -> list[Record]:
                return found

        return Answer()


def test_an_id_is_looked_up_once() -> None:
    log = Log()
    origins = LoopGuard(cast(SimpleConsumer, log))
    assert [origins.of(one) for one in (-1, 5, 5)] == [NONE, NONE, NONE]
    assert log.asked == 1
    log.announce(6, "A")
    log.announce(7, "A", "C")
    log.announce(8, "D")
    assert [origins.of(one) for one in (8, 6, 7, 5)] == [{"D"}, {"A"}, {"A", "C"}, NONE]
    assert log.asked == 2
    log.announce(9, "E")
    assert origins.of(9) == {"E"}


def test_an_id_that_could_not_be_looked_up_is_nobody_s() -> None:
    log = Log()
    log.announce(6, "A")
    log.trouble = KafkaError(CODES["REQUEST_TIMED_OUT"])
    origins = LoopGuard(cast(SimpleConsumer, log))
    with pytest.raises(KafkaError):
        origins.of(6)
    log.trouble = None
    assert origins.of(6) == {"A"}
