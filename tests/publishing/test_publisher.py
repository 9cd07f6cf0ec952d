"""The publishing loop, against a producer that does as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallymark.deployment import Deployment
from tallymark.errors import CODES, KafkaError, TimedOutError, UserError
from tallymark.publishing.cluster import check_topic, find_cluster
from tallymark.publishing.publisher import Counts, Publisher
from tallymark.publishing.reading.rows import Bad, Row, StopAfter
from tallymark.publishing.rejects import Rejects
from tallymark.publishing.schemas.fitting import Misfit
from tallymark.serialization import SerializationError

OnDelivery = Callable[[Exception | None, Any], object]


class ScriptedSink:
    """Delivers at once, what ``outcome`` says: None, or an error of the delivery."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes, int | None]] = []
        self.outcome: Callable[[bytes], Exception | None] = lambda _: None
        self.refusal: Callable[[bytes], Exception | None] = lambda _: None

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        timestamp: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> None:
        if refused := self.refusal(value):
            raise refused
        self.sent.append((topic, value, timestamp))
        assert on_delivery is not None
        error = self.outcome(value)
        on_delivery(error, None if error else object())


@pytest.fixture
def sink() -> ScriptedSink:
    return ScriptedSink()


@pytest.fixture
def rejects(tmp_path: Path) -> Rejects:
    return Rejects(tmp_path / "some" / "rejects.jsonl")


def fit(values: dict[str, Any]) -> dict[str, Any]:
    if "misfit" in values:
        raise Misfit("it does not fit", "misfit")
    return values


def encode(topic: str, value: Any) -> bytes:
    if "unencodable" in value:
        raise SerializationError("no")
    return json.dumps(value).encode()


def row(number: int, time_ms: int | None = 5, **values: Any) -> Row:
    return Row(number, time_ms, {"n": number, **values}, f"raw {number}")


def run(sink: ScriptedSink, rejects: Rejects, *rows: Row | Bad | None, **more: Any) -> Publisher:
    old_ms = more.pop("old_ms", None)
    publisher = Publisher(sink, "topic", fit, encode, rejects, old_ms)
    publisher.run(iter(rows), more.pop("stop", StopAfter(threading.Event())), **more)
    rejects.close()
    return publisher


def written(rejects: Rejects) -> list[tuple[int, str, str]]:
    lines = map(json.loads, rejects.path.read_text().splitlines())
    return [(line["line"], line["reason"], line["raw"]) for line in lines]


def test_rows_are_sent_with_their_time(sink: ScriptedSink, rejects: Rejects) -> None:
    publisher = run(sink, rejects, row(1), None, row(2, None))
    assert publisher.counts == Counts(read=2, published=2, acknowledged=2)
    assert publisher.counts.exit_code == 0
    assert sink.sent[0] == ("topic", b'{"n": 1}', 5)
    assert (sink.sent[1][2] or 0) > 1_600_000_000_000
    assert not rejects.path.exists()


def test_what_does_not_fit_is_kept_with_the_reason(sink: ScriptedSink, rejects: Rejects) -> None:
    rows = (row(1), Bad(2, "no row", "half a li"), row(3, misfit=1), row(4, unencodable=1), row(5))
    publisher = run(sink, rejects, *rows)
    assert publisher.counts == Counts(read=5, published=2, acknowledged=2, rejected=3)
    assert publisher.counts.exit_code == 2
    assert written(rejects) == [
        (2, "no row", "half a li"),
        (3, "misfit: it does not fit", "raw 3"),
        (4, "no", "raw 4"),
    ]


def test_a_record_that_the_cluster_refuses(sink: ScriptedSink, rejects: Rejects) -> None:
    """Too large: at once, or with its batch. The others go on."""
    too_large = KafkaError(CODES["MESSAGE_TOO_LARGE"])
    sink.refusal = lambda value: too_large if b"1" in value else None
    sink.outcome = lambda value: too_large if b"2" in value else None
    publisher = run(sink, rejects, row(1), row(2), row(3))
    assert publisher.counts == Counts(3, published=2, acknowledged=1, rejected=1, failed=1)
    assert publisher.counts.exit_code == 1
    assert [line for line, _, _ in written(rejects)] == [1, 2]
    assert publisher.error is too_large


def test_a_delivery_that_fails_ends_the_run(sink: ScriptedSink, rejects: Rejects) -> None:
    late = TimedOutError("no answer")
    sink.outcome = lambda value: late if b"2" in value else None
    publisher = run(sink, rejects, row(1), row(2), row(3))
    assert publisher.counts == Counts(read=2, published=2, acknowledged=1, failed=1)
    assert publisher.error is late
    assert written(rejects) == [(2, "not delivered: no answer", "raw 2")]


@pytest.mark.parametrize(
    "error", [TimedOutError("full"), KafkaError(CODES["TOPIC_AUTHORIZATION_FAILED"])]
)
def test_a_producer_that_takes_no_more_ends_the_run(
    sink: ScriptedSink, rejects: Rejects, error: Exception
) -> None:
    sink.refusal = lambda _: error
    publisher = run(sink, rejects, row(1), row(2))
    assert publisher.counts == Counts(read=1, rejected=1)
    assert publisher.error is error
    assert written(rejects)[0][1].startswith("not sent: ")


def test_ends(sink: ScriptedSink, rejects: Rejects) -> None:
    rows = [row(number) for number in range(10)]
    assert run(sink, rejects, *rows, max_events=3).counts.published == 3
    assert run(sink, rejects, *rows, max_events=0).counts.read == 0
    event = threading.Event()
    event.set()
    assert run(sink, rejects, *rows, stop=StopAfter(event)).counts.published == 1


def test_ticks_come_with_rows_and_pauses(sink: ScriptedSink, rejects: Rejects) -> None:
    seen: list[int] = []
    run(sink, rejects, row(1), None, row(2), tick=lambda counts: seen.append(counts.read))
    assert seen == [0, 1, 1]


def test_old_events_are_warned_of_once(
    sink: ScriptedSink, rejects: Rejects, caplog: pytest.LogCaptureFixture
) -> None:
    run(sink, rejects, row(1), row(2), old_ms=86_400_000)
    (warning,) = caplog.messages
    assert "--backfill" in warning
    assert "1970-01-01T00:00:00Z" in warning


def test_rejects_that_cannot_be_written_end_the_run(sink: ScriptedSink) -> None:
    for path in (Path("/dev/full"), Path("/dev/null/x")):
        with pytest.raises(UserError, match="cannot write the rejects file"):
            run(sink, Rejects(path), Bad(1, "", ""))


def test_a_failed_delivery_that_cannot_be_written_down(sink: ScriptedSink) -> None:
    """It is told on the producer's thread, where raising would only be logged."""
    sink.outcome = lambda _: TimedOutError("x")
    publisher = run(sink, Rejects(Path("/dev/full")), row(1), row(2))
    assert isinstance(publisher.error, UserError)
    assert publisher.counts.failed == 1


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "ä", "x" * 250, "a b", "a\n"])
def test_names_that_no_topic_has(name: str) -> None:
    with pytest.raises(UserError, match="cannot be the name of a topic"):
        check_topic(name)


def test_clusters() -> None:
    deployment = Deployment()
    assert find_cluster(deployment, None).name == "dc1"
    assert find_cluster(deployment, "dc2").name == "dc2"
    with pytest.raises(UserError, match=r"no cluster 'dc3' \(there are: dc1, dc2, aggregate\)"):
        find_cluster(deployment, "dc3")
