"""The chore that alerts, over a real store and a real webhook that has its moods."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from eventually import eventually
from sqlalchemy import select
from webhook_receiver import Receiver, webhook_receiver

from tallymark.client import Results
from tallymark.client.admin.configs import ConfigEntry, ConfigResource
from tallymark.deployment import AlertSettings, AuditedGroup, AuditSettings, Deployment
from tallymark.errors import ConnectError, TallymarkError, UserError
from tallymark_audit.alerts.alerter import Alerter, Owners, post_test
from tallymark_audit.alerts.retention import RetentionTimes, ask
from tallymark_audit.alerts.webhook import Refused, Webhook
from tallymark_audit.collector.ledger import Ledger
from tallymark_audit.judge.verdicts import State, Verdict
from tallymark_audit.model.alert import Alert
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.counted.positions import FencedError
from tallymark_audit.store.judged import alerts as stored
from tallymark_audit.store.judged.verdicts import COLLECTOR, SPARK, accept, record_verdicts
from tallymark_audit.store.schema.tables import (
    alerts,
    collectors,
    copied,
    observations,
    progress,
    reporters,
    watermarks,
)
from tallymark_audit.store.schema.upsert import upsert

NOON = 1_767_268_800_000
SECOND = 1000
EDGE = "dc1-to-aggregate"
INTERVAL, REPEAT = 60_000, 3_600_000


def verdict(state: State, edge: str = EDGE, window: int = NOON, **sums: Any) -> Verdict:
    return Verdict(edge, "clicks", window, state, **{"claimed": 100, "observed": 100, **sums})


LOSS = verdict(State.LOSS, observed=96, missing=4)
MENDED = verdict(State.COMPLETE)


class World:
    """A deployment whose collector of the aggregate alerts; the time is what is said."""

    def __init__(self, folder: Path, webhook: str = "", store: str = "", **settings: Any) -> None:
        told = AlertSettings(
            webhook=webhook, send_interval_ms=INTERVAL, repeat_interval_ms=REPEAT, **settings
        )
        groups = (AuditedGroup(cluster="aggregate", group="billing"),)
        self.deployment = Deployment(
            data_dir=folder, audit=AuditSettings(alerts=told, consumers=groups, store=store)
        )
        self.store: Store = open_store(self.deployment.audit_store)
        self.posts: list[Mapping[str, Any]] = []
        self.refused: Refused | None = None
        self.kept: dict[tuple[str, str], int] = {}
        with self.store.write() as connection:
            upsert(connection, reporters, [_reporter("c", consumer_group="billing", closed=True)])
        self.now = NOON
        self.start()

    def start(self, post: bool = True) -> None:
        """A collector that takes over from the one before."""
        ledger = Ledger(self.store, "aggregate")
        ledger.take_over("me", self.now)
        self.alerter = Alerter(ledger, self.deployment, self._post if post else None, self)

    def known(self, topics: set[tuple[str, str]], now: int) -> Mapping[tuple[str, str], int]:
        return {place: kept for place, kept in self.kept.items() if place in topics}

    def record(self, *judged: Verdict, source: str = COLLECTOR) -> None:
        with self.store.write() as connection:
            record_verdicts(connection, judged, source, self.now)

    def put(self, table: Any, *rows: dict[str, Any]) -> None:
        with self.store.write() as connection:
            upsert(connection, table, rows)

    def step(self, after: int = 10 * SECOND) -> None:
        """A look, and another one that takes what the webhook said."""
        self.now += after
        self.alerter.step(self.now)
        if not self.alerter._aside.idle:
            eventually(lambda: self.alerter._aside._running.done())  # type: ignore[union-attr]
            self.alerter._take_outcome(self.now)

    def rows(self) -> list[tuple[str, str, str]]:
        """Rule, status and what was told, in the order they began."""
        with self.store.read() as connection:
            found = connection.execute(select(alerts).order_by(alerts.c.starts_at)).mappings()
            return [(_short(row["rule"]), row["status"], row["told"]) for row in found]

    def statuses(self) -> list[list[tuple[str, str]]]:
        """What each post said."""
        return [
            [(_short(one["labels"]["alertname"]), one["status"]) for one in post["alerts"]]
            for post in self.posts
        ]

    def _post(self, body: Mapping[str, Any]) -> Refused | None:
        if self.refused is None:
            self.posts.append(body)
        return self.refused


def _short(rule: str) -> str:
    return rule.removeprefix("Tallymark")


def _reporter(name: str, **values: Any) -> dict[str, Any]:
    told = {"kind": "producer", "tier": "producer", "first_seen": NOON, "last_heard": NOON}
    return {"cluster": "aggregate", "reporter": name, "seen": [], "ahead": [], **told, **values}


Make = Callable[..., World]


@pytest.fixture
def make(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Make]:
    """Makes worlds with the settings that are given, and closes them."""
    made: list[World] = []
    other = getattr(request, "param", "sqlite") == "postgresql"
    address = request.getfixturevalue("postgres") if other else ""

    def one(**settings: Any) -> World:
        made.append(World(tmp_path, store=address, **settings))
        return made[-1]

    yield one
    for world in made:
        world.store.close()


@pytest.fixture
def world(make: Make) -> World:
    return make()


@pytest.mark.parametrize("make", ["sqlite", "postgresql"], indirect=True)
def test_a_loss_is_told_and_its_repair_too(world: World) -> None:
    world.record(LOSS)
    world.step()
    assert world.rows() == [("MissingMessages", "pending", "")]
    world.step()
    assert world.statuses() == [[("MissingMessages", "firing")]]
    assert world.rows() == [("MissingMessages", "firing", "firing")]
    world.record(MENDED)
    world.step()
    assert world.rows() == [("MissingMessages", "resolved", "firing")]
    world.step(INTERVAL)
    assert world.statuses()[1:] == [[("MissingMessages", "resolved")]]
    world.step(REPEAT)
    assert len(world.posts) == 2


def test_nothing_is_told_of_what_is_young_or_small(make: Make) -> None:
    world = make(missing=4)
    settling = verdict(State.SETTLING, window=NOON - 60_000, missing=50)
    world.record(LOSS, settling)
    world.step()
    assert world.rows() == []
    world.record(verdict(State.LOSS, missing=5))
    world.step()
    assert [rule for rule, *_ in world.rows()] == ["MissingMessages"]


def test_what_a_person_has_accepted_is_told_no_more(world: World) -> None:
    world.record(LOSS)
    world.step()
    world.step()
    with world.store.write() as connection:
        accept(connection, EDGE, "clicks", NOON, "ann", "", NOON)
    world.step()
    assert world.rows() == [("MissingMessages", "resolved", "firing")]


def test_it_is_told_again_only_after_a_while(world: World) -> None:
    world.record(LOSS)
    for _ in range(9):
        world.step(INTERVAL)
    assert len(world.posts) == 1
    world.step(REPEAT)
    assert world.statuses() == [[("MissingMessages", "firing")]] * 2


def test_no_more_than_one_post_in_the_interval(world: World) -> None:
    world.record(LOSS)
    world.step()
    world.step()
    world.record(verdict(State.DUPLICATION, window=NOON + 60_000, duplicates=2))
    for _ in range(5):
        world.step(INTERVAL // 6)
    assert len(world.posts) == 1
    world.step(INTERVAL // 6)
    assert set(world.statuses()[1]) == {
        ("DuplicateMessages", "firing"),
        ("MissingMessages", "firing"),  # goes on
    }


def test_a_restart_goes_on_where_the_last_one_was(world: World) -> None:
    world.record(LOSS)
    world.step()
    world.step()
    world.start()
    world.step()
    assert len(world.posts) == 1
    world.record(MENDED)
    world.start()
    world.step(INTERVAL)
    assert world.statuses()[1:] == [[("MissingMessages", "resolved")]]


def test_a_webhook_that_refuses_is_tried_again_later_and_later(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.refused = Refused("host answered 500")
    world.record(LOSS)
    with caplog.at_level(logging.WARNING):
        for _ in range(60):
            world.step()
    assert 2 <= world.alerter.counts.failed_posts <= 4
    assert len([one for one in caplog.messages if "cannot be told" in one]) == 1
    world.refused = None
    world.record(MENDED)
    for _ in range(4):
        world.step(600_000)
    assert world.statuses() == [[("MissingMessages", "firing")], [("MissingMessages", "resolved")]]


def test_a_collector_that_was_replaced_tells_nobody(world: World) -> None:
    old = world.alerter
    world.start()
    world.record(LOSS)
    with pytest.raises(FencedError):
        old.step(world.now + 1)


def test_in_a_pause_nobody_is_told(world: World) -> None:
    with world.store.write() as connection:
        stored.pause(connection, NOON + 120_000)
    world.record(LOSS, verdict(State.DUPLICATION, window=NOON + 60_000, duplicates=2))
    world.step()
    world.step()
    world.record(MENDED)
    world.step()
    assert world.posts == []
    world.step(120_000)
    assert world.statuses() == [[("DuplicateMessages", "firing")]]
    assert ("MissingMessages", "resolved", "nobody") in world.rows()


def test_without_a_webhook_alerts_are_listed_all_the_same(world: World) -> None:
    world.start(post=False)
    world.record(LOSS)
    world.step()
    world.step()
    assert world.rows() == [("MissingMessages", "firing", "")]
    world.record(MENDED)
    world.step()
    assert world.rows() == [("MissingMessages", "resolved", "nobody")]


def test_reporters_are_silent_only_as_far_as_the_audit_topic_was_read(world: World) -> None:
    """The collector had been away for an hour: all reporters were called silent."""
    place = {"cluster": "aggregate", "topic": AUDIT_TOPIC, "partition": 0}
    world.put(progress, {**place, "counted_through": NOON + 10 * SECOND})
    world.put(reporters, _reporter("r1"), _reporter("r2", closed=True))
    world.put(reporters, _reporter("mirror-dc1-to-aggregate", kind="mirror", last_heard=NOON - 1))
    world.step(3_600_000)
    assert world.rows() == []
    with world.store.write() as connection:
        connection.execute(progress.update().values(counted_through=NOON + 31 * SECOND))
    world.step()
    assert sorted(rule for rule, *_ in world.rows()) == ["MirrorSilent", "ReporterSilent"]


def test_counters_that_disagree(world: World) -> None:
    world.record(MENDED)
    world.now += 1
    world.record(LOSS, source=SPARK)
    world.step()
    assert sorted(rule for rule, *_ in world.rows()) == ["CountersDisagree", "MissingMessages"]


def test_a_stalled_watermark(world: World) -> None:
    mark = {"edge": EDGE, "topic": "clicks", "through": NOON, "horizon": NOON, "at": NOON}
    world.put(watermarks, {**mark, "holes": [[NOON, "UNKNOWN", False]]})
    world.step(600_000)
    assert world.rows() == []
    world.step(120_000)
    world.step(INTERVAL)
    (alert,) = world.posts[0]["alerts"]
    assert alert["labels"]["alertname"] == "TallymarkWatermarkStalled"
    assert "2026-01-01T12:00:00Z is UNKNOWN" in alert["annotations"]["description"]


def test_a_topic_of_which_nothing_was_counted_yet_is_not_stalled_since_1970(world: World) -> None:
    """A stack was started on a busy machine. The first count of each topic came a few seconds after
    its watermark was written, as 0; by then an alert had fired, "complete through
    1970-01-01T00:00:00Z only", and it was taken back two seconds later, for every topic."""
    began = world.now
    mark = {"edge": EDGE, "topic": "clicks", "through": 0, "horizon": 0, "at": began}
    world.put(watermarks, {**mark, "holes": []})
    world.step(120_000)
    world.step(INTERVAL)
    assert world.rows() == []
    world.step(700_000)
    world.step(INTERVAL)
    (alert,) = world.posts[0]["alerts"]
    assert alert["labels"]["alertname"] == "TallymarkWatermarkStalled"
    assert "1970" not in alert["annotations"]["summary"]


def test_late_records_that_are_settling_do_not_stall_a_watermark(world: World) -> None:
    """A host's clock was twenty minutes behind. Each of its windows was re-opened, held the
    watermark twenty minutes back until it had settled, and the alert said so and took it back. That
    a window settles for longer than the patience, behind a mirror that lives and copies nothing, is
    still told."""
    old = world.now - 1_200_000
    settling = Verdict(EDGE, "clicks", old, State.SETTLING, claimed=5)
    world.record(settling)
    mark = {"edge": EDGE, "topic": "clicks", "through": old, "horizon": world.now, "at": world.now}
    world.put(watermarks, {**mark, "holes": [[old, "SETTLING", False]]})
    world.step(20_000)
    world.step(INTERVAL)
    assert world.rows() == []
    world.step(700_000)
    world.step(INTERVAL)
    (alert,) = world.posts[0]["alerts"]
    assert alert["labels"]["alertname"] == "TallymarkWatermarkStalled"
    assert "is SETTLING" in alert["annotations"]["description"]


def test_what_is_unknown_for_a_moment_does_not_stall_a_watermark(world: World) -> None:
    """A host's clock was twenty minutes behind, and the stack was just starting on a busy machine:
    its first windows were UNKNOWN for five seconds, since the counter had not counted yet. The
    alert said that the watermark had stalled for twenty minutes, and took it back."""
    old = world.now - 1_200_000
    mark = {"edge": EDGE, "topic": "clicks", "through": old, "horizon": world.now, "at": world.now}
    for state in (State.UNKNOWN, State.SETTLING, State.UNKNOWN):
        world.record(Verdict(EDGE, "clicks", old, state, claimed=5))
        world.put(watermarks, {**mark, "holes": [[old, str(state), False]]})
        world.step(5_000)
        world.step(INTERVAL)
    assert world.rows() == []
    world.step(700_000)
    world.step(INTERVAL)
    assert [rule for rule, *_ in world.rows()] == ["WatermarkStalled"]


def test_an_alarm_whose_window_is_counted_again_goes_on(world: World) -> None:
    """A host's clock was twenty minutes behind, and one of its windows was LOSS: the watermark had
    stalled there. The collector was started again and found that the mirror had more to copy of the
    window, so it was SETTLING for three seconds, and LOSS again. The alert was taken back and fired
    a second time."""
    old = world.now - 1_200_000
    mark = {"edge": EDGE, "topic": "clicks", "through": old, "horizon": world.now, "at": world.now}
    for state in (State.SETTLING, State.LOSS, State.SETTLING, State.SETTLING):
        missing = int(state is State.LOSS)
        world.record(Verdict(EDGE, "clicks", old, state, claimed=5, missing=missing))
        world.put(watermarks, {**mark, "holes": [[old, str(state), False]]})
        world.step(2_000)
        world.step(INTERVAL)
    stalled = [one for one in world.rows() if one[0] == "WatermarkStalled"]
    assert [status for _, status, *_ in stalled] == ["firing"]
    world.record(Verdict(EDGE, "clicks", old, State.COMPLETE, claimed=5, observed=5))
    world.step(2_000)  # the watermark's row is written later than the verdict
    stalled = [one for one in world.rows() if one[0] == "WatermarkStalled"]
    assert [status for _, status, *_ in stalled] == ["resolved"]
    world.put(watermarks, {**mark, "through": world.now, "holes": []})
    world.step(2_000)
    stalled = [one for one in world.rows() if one[0] == "WatermarkStalled"]
    assert [status for _, status, *_ in stalled] == ["resolved"]


@pytest.mark.parametrize("behind", ["reporter", "counter"])
def test_a_reporter_whose_clock_is_slow_does_not_stall_a_watermark(
    world: World, behind: str
) -> None:
    """A host's clock was twenty minutes behind, so its producer had reported up to a time that was
    twenty minutes past: the watermark moved on there, two seconds every two seconds. An alert said
    that it had stalled, until a window held it that was settling; then it was taken back. A
    reporter that moves nothing on is still an alert, and so is a counter that is behind."""
    old = world.now - 1_200_000
    mark = {"edge": "producer-to-aggregate", "topic": "clicks", "holes": []}
    counter = {"cluster": "aggregate", "topic": AUDIT_TOPIC, "partition": 0}
    for step in range(3):
        through = {"through": old + step * 2_000, "horizon": old + step * 2_000, "at": world.now}
        world.put(watermarks, {**mark, **through})
        counted = world.now if behind == "reporter" else old + step * 2_000
        for topic in (AUDIT_TOPIC, "clicks"):
            world.put(progress, {**counter, "topic": topic, "counted_through": counted})
        world.step(2_000)
    found = [(rule, status) for rule, status, _ in world.rows()]
    assert found == ([("WatermarkStalled", "firing")] if behind == "counter" else [])
    for topic in (AUDIT_TOPIC, "clicks"):
        moved = {"counted_through": world.now + 700_000} if behind == "reporter" else {}
        world.put(progress, {**counter, "topic": topic, "counted_through": old, **moved})
    world.step(700_000)
    assert [rule for rule, *_ in world.rows()] == ["WatermarkStalled"]


@pytest.mark.parametrize("make", ["sqlite", "postgresql"], indirect=True)
def test_retention_that_is_about_to_eat_what_was_not_mirrored(world: World) -> None:
    spot = {"topic": "clicks", "partition": 0}
    world.put(progress, {"cluster": "dc1", **spot, "next_offset": 100, "high_watermark": 100})
    cell = {"tier": "cluster", "window": NOON, "server": "w", "instance": "i"}
    seen = {"seen_topic": "clicks", "seen_partition": 0, "first_offset": 50, "last_offset": 99}
    world.put(observations, {"cluster": "dc1", **spot, **cell, **seen, "min_timestamp": NOON})
    world.put(
        copied,
        {"cluster": "aggregate", "reporter": f"mirror-{EDGE}", **spot, "through_offset": 60},
    )
    world.kept = {("dc1", "clicks"): 7_200_000}
    world.step(3_000_000)
    assert world.rows() == []
    world.step(1_000_000)
    assert [rule for rule, *_ in world.rows()] == ["RetentionRisk"]
    with world.store.write() as connection:
        connection.execute(copied.update().values(through_offset=100))
    world.step()
    assert world.rows() == []


def test_the_next_clusters_collector_says_that_one_is_silent(world: World) -> None:
    world.put(
        collectors,
        {"cluster": "dc1", "heartbeat": NOON - 60_000},  # dc2's collector looks after it
        {"cluster": "dc2", "heartbeat": NOON - 60_000},
    )
    world.step()
    world.step(INTERVAL)
    (alert,) = world.posts[0]["alerts"]
    assert alert["labels"]["alertname"] == "TallymarkCollectorSilent"
    assert alert["labels"]["cluster"] == "dc2"


def test_every_alert_has_one_owner() -> None:
    deployment = Deployment()

    def owner(rule: str, **labels: str) -> str:
        alert = Alert({"alertname": f"Tallymark{rule}", **labels}, {}, "firing", 0)
        return Owners.of(deployment).of_alert(alert)

    assert owner("MissingMessages", edge=EDGE) == "aggregate"
    assert owner("RetentionRisk", edge=EDGE, cluster="dc1") == "aggregate"
    assert owner("ReporterSilent", cluster="dc2") == "dc2"
    assert owner("CollectorSilent", cluster="aggregate") == "dc1"
    assert owner("MissingMessages", edge="dc2-to-group:found by its reports") == "dc2"
    assert owner("MissingMessages", edge="gone") == "dc1"
    assert owner("CollectorSilent", cluster="gone") == "dc1"


class OneAdmin:
    """An Admin that knows four topics, or is away."""

    closed = 0

    def __init__(self, away: bool = False) -> None:
        self.away = away

    def describe_configs(
        self, resources: Any, *, names: Any
    ) -> Results[ConfigResource, dict[str, ConfigEntry]]:
        if self.away:
            raise ConnectError("dc1:9092", "connect", "refused")
        known = {"clicks": ("5", "delete"), "all": ("-1", "delete"), "log": ("5", "compact")}
        outcomes: dict[ConfigResource, Any] = {}
        for one in resources:
            if one.name not in known:
                outcomes[one] = TallymarkError("no such topic")
                continue
            values = zip(names, known[one.name], strict=True)
            outcomes[one] = {name: ConfigEntry(name, text, "topic") for name, text in values}
        return Results.of(outcomes)

    def close(self) -> None:
        self.closed += 1


def test_retention_times_are_learned_of_topics_that_delete() -> None:
    admin = OneAdmin()
    topics = {("dc1", name) for name in ("clicks", "all", "log", "gone")}
    assert ask(lambda _: admin, topics, {}) == {("dc1", "clicks"): 5}
    assert admin.closed == 1
    before = {("dc1", "clicks"): 7, ("dc2", "x"): 1}
    assert ask(lambda _: OneAdmin(away=True), topics, before) == {("dc1", "clicks"): 7}


def test_retention_times_are_asked_beside_the_loop() -> None:
    asked: list[str] = []

    def admin_of(cluster: str) -> OneAdmin:
        asked.append(cluster)
        return OneAdmin()

    times = RetentionTimes(admin_of)
    topics = {("dc1", "clicks")}
    assert times.known(topics, 0) == {}
    eventually(lambda: times.known(topics, 1) == {("dc1", "clicks"): 5})
    assert asked == ["dc1"]
    times.known(topics, 600_000)
    eventually(lambda: asked == ["dc1", "dc1"])


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with webhook_receiver() as receiver:
        yield receiver


def test_a_webhook_takes_a_post(receiver: Receiver) -> None:
    assert Webhook.of(receiver.url).post({"version": "4"}) is None
    assert receiver.taken == [{"version": "4"}]


@pytest.mark.parametrize(
    ("mood", "reason"),
    [
        ("refuses", "127.0.0.1 answered 500"),
        ("hangs", "did not answer within"),
        ("drips", "did not answer within"),
        ("nonsense", "cannot be reached"),
    ],
)
def test_a_webhook_in_a_bad_mood(receiver: Receiver, mood: Any, reason: str) -> None:
    """A receiver that sent a byte now and then held the poster for ever: each read was in time."""
    receiver.mood = mood
    patience = 0.3 if "within" in reason else 60
    refused = Webhook(receiver.url + "?token=secret", patience).post({})
    assert refused is not None
    assert reason in refused.reason
    assert "secret" not in refused.reason


def test_a_webhook_that_is_not_there() -> None:
    with webhook_receiver() as receiver:
        url = receiver.url
    refused = Webhook(url, 5).post({})
    assert refused is not None
    assert "cannot be reached" in refused.reason


@pytest.mark.parametrize("url", ["ftp://x/y", "http://", "x", "http://[", "http://x:0/", ""])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(UserError, match="webhook"):
        Webhook.of(url)


def test_a_hanging_webhook_does_not_hold_the_collector(world: World, receiver: Receiver) -> None:
    """The step returns although nobody answers; when the webhook is well again, all is told."""
    receiver.mood = "hangs"
    world.alerter = Alerter(
        world.alerter._ledger, world.deployment, Webhook(receiver.url, 2).post, world
    )
    world.record(LOSS)
    world.alerter.step(NOON)
    for n in range(10):
        world.alerter.step(NOON + 20_000 + n)
    assert receiver.taken == []
    eventually(lambda: receiver.asked == 1)
    eventually(lambda: _step(world, NOON + 30_000) and world.alerter.counts.failed_posts == 1)
    receiver.mood = "takes"
    eventually(lambda: _step(world, NOON + 900_000) and bool(receiver.taken))
    assert receiver.taken[0]["alerts"][0]["labels"]["topic"] == "clicks"


def _step(world: World, now: int) -> bool:
    world.alerter.step(now)
    return True


def test_a_test_alert_can_be_posted(tmp_path: Path, receiver: Receiver) -> None:
    told = AlertSettings(webhook=receiver.url, console_url="http://console")
    deployment = Deployment(data_dir=tmp_path, audit=AuditSettings(alerts=told))
    assert post_test(deployment, NOON) is None
    assert receiver.taken[0]["alerts"][0]["labels"]["alertname"] == "TallymarkTest"
    assert receiver.taken[0]["externalURL"] == "http://console"
