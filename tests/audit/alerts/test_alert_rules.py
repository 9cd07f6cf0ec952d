"""When somebody is told, by tables; and the words, as Alertmanager has them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tallymark.deployment import AlertSettings
from tallymark_audit.alerts.machine import Telling
from tallymark_audit.alerts.payload import NEVER, body, time_text
from tallymark_audit.alerts.rules import Facts, Mark, Rules
from tallymark_audit.model.alert import Alert
from tallymark_audit.model.open_transaction import OpenTransaction
from tallymark_audit.store.counted.openings import Overflowed
from tallymark_audit.store.reading.alarms.backlogs import Backlog
from tallymark_audit.store.reading.alarms.watching import Silent, WrongWindows

NOON = 1_767_268_800_000  # 2026-01-01T12:00:00Z
RULES = Rules(AlertSettings(stalled_ms=600_000, retention_margin_ms=3_600_000), 60_000, 30_000, "http://c")  # fmt: skip  # noqa: E501
WRONG = WrongWindows("dc1-to-aggregate", "clicks", 3, 41, NOON)
SILENT = Silent("dc1", "r1", "producer", "web-1", "shop", "", NOON)


def told(facts: Facts, now: int = NOON) -> list[tuple[str, dict[str, str]]]:
    """Rule and what it is about."""
    found: list[tuple[str, dict[str, str]]] = []
    for one in RULES.judge(facts, now):
        labels = dict(one.labels)
        labels.pop("severity")
        found.append((labels.pop("alertname").removeprefix("Tallymark"), labels))
    return found


def test_nothing_is_wrong() -> None:
    assert told(Facts()) == []


def test_a_transaction_that_hangs_is_one_alert_a_partition() -> None:
    one = OpenTransaction("dc1", "clicks", 3, 120, 4711, NOON - 60_000)
    (found,) = RULES.judge(Facts(hanging=[one]), NOON)
    assert found.labels == {
        "alertname": "TallymarkTransactionHangs",
        "severity": "critical",
        "cluster": "dc1",
        "topic": "clicks",
        "partition": "3",
    }
    for told_of in ("clicks-3", "offset 120", "producer 4711", "2026-01-01T11:59:00Z"):
        assert told_of in found.annotations["summary"]


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("missing", "MissingMessages"),
        ("duplicates", "DuplicateMessages"),
        ("corrupt", "CorruptMessages"),
        ("disagreements", "CountersDisagree"),
    ],
)
def test_wrong_windows_are_one_alert_a_topic_and_edge(name: str, rule: str) -> None:
    found: dict[str, Any] = {name: [WRONG]}
    facts = Facts(**found)
    assert told(facts) == [(rule, {"edge": "dc1-to-aggregate", "topic": "clicks"})]
    (one,) = RULES.judge(facts, NOON)
    assert "41 messages" in one.annotations["summary"]
    assert one.annotations["link"] == (
        f"http://c/window?edge=dc1-to-aggregate&topic=clicks&window={NOON}"
    )


@pytest.mark.parametrize(
    ("behind_ms", "stalls"), [(0, False), (60_000 + 5_000 + 600_000, False), (665_001, True)]
)
def test_a_watermark_has_its_settle_time_and_patience(behind_ms: int, stalls: bool) -> None:
    mark = Mark("e", "t", NOON - behind_ms, 5_000)
    assert bool(told(Facts(marks=[mark]))) is stalls


def test_a_stalled_watermark_says_what_holds_it() -> None:
    held = Mark("e", "t", 0, 5_000, "2026-01-01T12:00:00Z is LOSS", NOON)
    (one,) = RULES.judge(Facts(marks=[held]), NOON)
    assert "is LOSS" in one.annotations["description"]
    assert f"window={NOON}" in one.annotations["link"]


def test_silent_reporters_are_one_alert_a_kind_and_each_mirror_one() -> None:
    def mirror(name: str) -> Silent:
        return replace(SILENT, reporter=name, kind="mirror")

    consumer = replace(SILENT, kind="consumer", consumer_group="billing")
    silent = [replace(SILENT, reporter=f"r{n}") for n in range(7)]
    facts = Facts(silent=[*silent, mirror("mirror-a-to-b"), mirror("mirror-c-to-b"), consumer])
    assert told(facts) == [
        ("ReporterSilent", {"cluster": "dc1", "kind": "producer"}),
        ("MirrorSilent", {"cluster": "dc1", "kind": "mirror", "mirror": "mirror-a-to-b"}),
        ("MirrorSilent", {"cluster": "dc1", "kind": "mirror", "mirror": "mirror-c-to-b"}),
        ("ReporterSilent", {"cluster": "dc1", "kind": "consumer", "group": "billing"}),
    ]
    assert "and 2 more" in RULES.judge(facts, NOON)[0].annotations["description"]


def test_a_group_that_has_to_report_and_never_did() -> None:
    facts = Facts(missing_groups=[("dc1", "billing")])
    about = {"cluster": "dc1", "kind": "consumer", "group": "billing"}
    assert told(facts) == [("ReporterSilent", about)]


@pytest.mark.parametrize(("age", "silent"), [(30_000, False), (30_001, True)])
def test_a_collector_is_silent(age: int, silent: bool) -> None:
    assert bool(told(Facts(heartbeats={"dc1": NOON - age}))) is silent


DAY = 86_400_000


@pytest.mark.parametrize(
    ("oldest", "kept", "risk"),
    [
        (NOON - DAY + 3_600_001, DAY, False),
        (NOON - DAY + 3_599_999, DAY, True),
        (NOON - 2 * DAY, DAY, True),  # over its time already, and not deleted yet
        (NOON - 2 * DAY, None, False),  # kept for ever
    ],
)
@pytest.mark.parametrize("reader", ["dc1-to-aggregate", "collector"])
def test_retention_is_told_before_it_deletes(
    reader: str, oldest: int, kept: int | None, risk: bool
) -> None:
    backlogs = [
        Backlog(reader, "dc1", "clicks", 0, 5, NOON),
        Backlog(reader, "dc1", "clicks", 1, 5, oldest),
    ]
    times = {} if kept is None else {("dc1", "clicks"): kept}
    found = told(Facts(backlogs=backlogs, retention_ms=times))
    edge = {} if reader == "collector" else {"edge": reader}
    about = {"cluster": "dc1", "topic": "clicks", **edge}
    assert found == ([("RetentionRisk", about)] if risk else [])


def test_too_many_runs_are_told_once_a_topic() -> None:
    """However many partitions were flooded with forged stamps."""
    flooded = [Overflowed("dc1", "clicks", partition, 10, NOON) for partition in range(100)]
    assert told(Facts(overflowed=flooded)) == [
        ("TooManyRuns", {"cluster": "dc1", "topic": "clicks"})
    ]
    (alert,) = RULES.judge(Facts(overflowed=flooded), NOON)
    assert "1000 records" in alert.annotations["summary"]


def test_labels_are_bounded() -> None:
    """Windows, servers and offsets made a new alert each time, and a receiver drowned."""
    facts = Facts(missing=[WRONG], marks=[Mark("e", "t", 0, 0, "x", 5)], silent=[SILENT])
    allowed = {"alertname", "severity", "edge", "topic", "cluster", "kind", "mirror", "group"}
    later = WRONG._replace(windows=9, messages=99, newest=NOON + 60_000)
    for one in RULES.judge(facts, NOON):
        assert set(one.labels) <= allowed
    (first,) = RULES.judge(Facts(missing=[WRONG]), NOON)
    (second,) = RULES.judge(Facts(missing=[later]), NOON)
    assert first.fingerprint == second.fingerprint


LABELS = {"alertname": "X", "severity": "critical", "edge": "e", "topic": "t"}
GROUP = {"deployment": "local", "collector": "dc1"}


def test_a_post_has_the_shape_of_alertmanagers() -> None:
    alert = Alert(LABELS, {"summary": "s", "link": "http://c/w"}, "firing", NOON + 5)
    post = json.loads(json.dumps(body([Telling(alert, "firing")], [], GROUP, "http://c")))
    everything = {**GROUP, **LABELS}
    assert post == {
        "version": "4",
        "groupKey": '{}:{deployment="local", collector="dc1"}',
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": "tallymark",
        "groupLabels": GROUP,
        "commonLabels": everything,
        "commonAnnotations": {"summary": "s", "link": "http://c/w"},
        "externalURL": "http://c",
        "alerts": [
            {
                "status": "firing",
                "labels": everything,
                "annotations": {"summary": "s", "link": "http://c/w"},
                "startsAt": "2026-01-01T12:00:00.005Z",
                "endsAt": NEVER,
                "generatorURL": "http://c/w",
                "fingerprint": alert.fingerprint,
            }
        ],
    }


def test_a_group_is_resolved_only_when_nothing_of_it_fires() -> None:
    over = Alert(LABELS, {}, "resolved", NOON, NOON + 1000, "firing", NOON)
    other = Alert({**LABELS, "topic": "u"}, {}, "firing", NOON, 0, "firing", NOON)
    alone: dict[str, Any] = body([Telling(over, "resolved")], [], GROUP, "")
    assert alone["status"] == "resolved"
    assert alone["alerts"][0]["endsAt"] == "2026-01-01T12:00:01.000Z"
    both = body([Telling(over, "resolved")], [other], GROUP, "")
    assert both["status"] == "firing"
    assert [one["status"] for one in both["alerts"]] == ["resolved", "firing"]
    assert "topic" not in both["commonLabels"]


def test_a_post_is_bounded() -> None:
    alerts = [Alert({**LABELS, "topic": str(n)}, {}, "firing", NOON) for n in range(250)]
    post = body([Telling(one, "firing") for one in alerts[:60]], alerts[60:], GROUP, "", more=7)
    assert len(post["alerts"]) == 100
    assert post["truncatedAlerts"] == 150 + 7


def test_times_of_alerts_are_exact() -> None:
    assert time_text(NOON + 7) == "2026-01-01T12:00:00.007Z"
