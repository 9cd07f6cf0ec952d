"""What operators do by the pages: done, written down with who did it, refused with what to do."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, cast
from uuid import UUID

import pytest
from judged_world import heartbeats, publisher, steady, world_in
from sqlalchemy import select

from tallymark.clock import now_ms
from tallymark.deployment import Deployment
from tallymark.errors import UserError
from tallymark.protocol.records.saved_tail import DESCRIPTION, Tail, encode_tail
from tallymark.trail import COMMANDS_FILE_NAME, Doer
from tallymark_audit.judge.verdicts import CellVerdict, State, Verdict
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.store import Store
from tallymark_audit.store.judged import alerts
from tallymark_audit.store.judged.verdicts import COLLECTOR, SPARK, record_verdicts
from tallymark_audit.store.reading.runs import DecisionsAsked, decision_page
from tallymark_audit.store.schema.tables import decisions, repairs, reporters, verdicts
from tallymark_dashboards.actions.desk import PROCESS, Asked, Job, Phase, RepairDesk

NOON = 1_767_268_800_000
WINDOW = f"edge=dc1-to-aggregate&topic=clicks&window={NOON}"
EDGE = "dc1-to-aggregate"
ALICE = Doer("User:alice", "10.0.0.9", PROCESS)
Browsers = Callable[[str], Any]


def decided(store: Store) -> list[dict[str, Any]]:
    with store.read() as connection:
        return decision_page(connection, DecisionsAsked())


def test_accepting_a_window_and_taking_it_back(
    browser: Browsers, filled: Store, deployment: Deployment
) -> None:
    alice = browser("alice")
    page = alice.get(f"/window?{WINDOW}").text
    assert "/act/accept?" in page
    form = alice.open(f"/act/accept?{WINDOW}")
    done = alice.post("/act/accept", {**form, "note": "known\n since Friday"})
    assert done.status_code == 303
    assert done.headers["location"].startswith("/window?")
    shown = alice.get(done.headers["location"]).text
    assert "accepted by alice" in shown
    assert "known since Friday" in shown
    assert "/act/withdraw?" in shown
    (row,) = decided(filled)
    assert (row["who"], row["action"], row["process"]) == ("User:alice", "accept", "dashboards")
    line = json.loads((deployment.data_dir / COMMANDS_FILE_NAME).read_text())
    assert (line["who"], line["action"]) == ("User:alice", "ACCEPT_WINDOW")
    assert alice.post("/act/withdraw", alice.open(f"/act/withdraw?{WINDOW}")).status_code == 303
    with filled.read() as connection:
        assert set(connection.execute(select(verdicts.c.accepted_by)).scalars()) == {""}


def test_a_viewer_is_not_led_to_what_is_refused(browser: Browsers) -> None:
    assert "/act/" not in browser("bob").get(f"/window?{WINDOW}").text


def test_a_good_window_cannot_be_accepted(browser: Browsers, filled: Store) -> None:
    alice = browser("alice")
    form = alice.open(f"/act/accept?edge={EDGE}&topic=views&window={NOON}")
    refused = alice.post("/act/accept", form)
    assert refused.status_code == 409
    assert "there is nothing to accept" in refused.text.lower()
    assert decided(filled) == []


def test_retiring_a_reporter(browser: Browsers, filled: Store) -> None:
    alice = browser("alice")
    page = alice.get("/act/retire?reporter=r1").text
    assert "it is running" not in page
    with filled.write() as connection:
        connection.execute(reporters.update().values(last_heard=now_ms()))
    assert "it is running" in alice.get("/act/retire?reporter=r1").text
    assert alice.post("/act/retire", alice.open("/act/retire?reporter=r1")).status_code == 303
    with filled.read() as connection:
        assert connection.scalar(select(reporters.c.retired_at))
    assert decided(filled)[0]["subject"] == "r1"
    assert alice.get("/act/retire?reporter=r2").status_code == 404


def test_pausing_the_alerts_and_ending_the_pause(browser: Browsers, filled: Store) -> None:
    alice = browser("alice")
    form = alice.open("/act/pause")
    assert alice.post("/act/pause", {**form, "for": "2h"}).status_code == 303
    with filled.read() as connection:
        until = alerts.paused_until(connection)
    assert abs(until - now_ms() - 7_200_000) < 60_000
    assert "until 20" in alice.get("/act/resume").text
    assert alice.post("/act/resume", alice.open("/act/resume")).status_code == 303
    with filled.read() as connection:
        assert alerts.paused_until(connection) == 0
    refused = alice.post("/act/pause", {**form, "for": "9y"})
    assert refused.status_code == 409
    assert "Choose one of 30m" in refused.text


def test_a_decision_in_another_tab_is_not_overwritten_unseen(
    browser: Browsers, filled: Store
) -> None:
    """Two operators had the same window open: the second one's name replaced the first one's, and
    neither saw it. A pause of half an hour, from an old tab, cut off one of eight."""
    alice, carol = browser("alice"), browser("carol")
    first, second = (one.open(f"/act/accept?{WINDOW}") for one in (alice, carol))
    assert alice.post("/act/accept", first).status_code == 303
    refused = carol.post("/act/accept", second)
    assert refused.status_code == 409
    assert "has changed since it was opened" in refused.text
    assert "accepted by</dt><dd>alice" in refused.text
    assert [one["who"] for one in decided(filled)] == ["User:alice"]
    assert carol.post("/act/accept", carol.open(f"/act/accept?{WINDOW}")).status_code == 303

    long, short = alice.open("/act/pause"), carol.open("/act/pause")
    assert alice.post("/act/pause", {**long, "for": "8h"}).status_code == 303
    refused = carol.post("/act/pause", {**short, "for": "30m"})
    assert refused.status_code == 409
    assert "The pause that you choose replaces this one" in refused.text
    with filled.read() as connection:
        assert alerts.paused_until(connection) > now_ms() + 7 * 3_600_000
    end, late = alice.open("/act/resume"), carol.open("/act/resume")
    assert alice.post("/act/resume", end).status_code == 303
    assert carol.post("/act/resume", late).status_code == 409
    one, other = (each.open("/act/retire?reporter=r1") for each in (alice, carol))
    assert alice.post("/act/retire", one).status_code == 303
    refused = carol.post("/act/retire", other)
    assert refused.status_code == 409
    assert "retired on dc1" in refused.text
    actions = [one["action"] for one in decided(filled)]
    assert actions == ["retire", "resume", "pause", "accept", "accept"]


def test_a_window_that_was_judged_again_is_looked_at_again(
    browser: Browsers, filled: Store
) -> None:
    """The form said that 4 messages are missing; when it was sent there were 400."""
    alice = browser("alice")
    form = alice.open(f"/act/accept?{WINDOW}")
    worse = Verdict(EDGE, "clicks", NOON, State.MIXED, 99_999, 99_599, missing=400, duplicates=1)
    with filled.write() as connection:
        record_verdicts(connection, [worse], SPARK, NOON + 900_000)
    refused = alice.post("/act/accept", form)
    assert refused.status_code == 409
    assert "400 missing" in refused.text
    assert decided(filled) == []


def test_nothing_is_taken_back_where_nothing_was_given(browser: Browsers, filled: Store) -> None:
    alice = browser("alice")
    assert "there is nothing to take back" in alice.get(f"/act/withdraw?{WINDOW}").text
    refused = alice.post("/act/withdraw", alice.open(f"/act/withdraw?{WINDOW}"))
    assert refused.status_code == 409
    assert "Alerts are not paused now" in alice.get("/act/resume").text
    refused = alice.post("/act/resume", alice.open("/act/resume"))
    assert refused.status_code == 409
    assert "there is no pause to end" in refused.text
    assert decided(filled) == []


@pytest.mark.parametrize("action", ["accept", "withdraw", "repair"])
def test_a_window_is_named_in_either_form(browser: Browsers, action: str) -> None:
    """The page of a window took a time; the forms that it leads to called the same time no
    window."""
    alice = browser("alice")
    place = f"/act/{action}?edge={EDGE}&topic=clicks"
    assert alice.get(f"{place}&window=2026-01-01T12:00:00Z").status_code == 200
    assert "No window is named" in alice.get(place).text
    unknown = alice.get(f"{place}&window=abc")
    assert unknown.status_code == 404
    assert "&#39;abc&#39; is no window" in unknown.text


class NoClusters:
    """Waits until it is let go, then no cluster can be opened."""

    def __init__(self) -> None:
        self.go = threading.Event()

    def __call__(self, _stack: ExitStack) -> Any:
        assert self.go.wait(30)
        raise UserError("dc1 cannot be reached", "start it")


def ended(desk: RepairDesk, asked: Asked) -> Job:
    for _ in range(3000):
        job = desk.job(asked)
        if job is not None and not job.is_busy:
            return job
        time.sleep(0.01)
    raise AssertionError("it did not end")


def test_one_repair_at_a_time(deployment: Deployment, filled: Store) -> None:
    gone = NoClusters()
    desk = RepairDesk(deployment, filled, opened=gone)
    first, other = (Asked(EDGE, topic, NOON, NOON + 60_000) for topic in ("clicks", "views"))
    job = desk.look(first, "alice")
    assert job is not None
    assert desk.look(other, "carol") is None
    assert desk.busy() is job
    gone.go.set()
    failed = ended(desk, first)
    assert failed.phase is Phase.FAILED
    assert "cannot be reached" in failed.error
    assert desk.look(other, "carol") is not None
    desk.close()


def test_the_plan_of_a_producers_edge_looks_at_what_brokers_have_saved(
    deployment: Deployment, filled: Store
) -> None:
    """The command put back what an unclean election had cut; the page knew nothing of it. Where
    it cannot look, it says so, instead of a plan without them."""
    folder = deployment.data_dir / "dc1" / "broker-0" / "clicks-0.77-truncated"
    folder.mkdir(parents=True)
    tail = Tail("c", 1, NOON, "clicks", 0, UUID(int=77), 3, 6, 20, 20, 99, ((1, 0),))
    (folder / DESCRIPTION).write_bytes(encode_tail(tail))
    gone = NoClusters()
    gone.go.set()
    desk = RepairDesk(deployment, filled, opened=gone)
    asked = Asked("producer-to-dc1", "clicks", NOON, NOON + 60_000)
    assert desk.look(asked, "alice") is not None
    said = ended(desk, asked).error
    assert "what brokers have saved before they cut it cannot be looked at" in said
    desk.close()


def test_a_repair_by_a_command_is_waited_for(deployment: Deployment, filled: Store) -> None:
    """Two repairs at once could copy the same messages twice."""
    with filled.write() as connection:
        connection.execute(
            decisions.insert().values(at=now_ms(), who="os-user:bob", host="h", action="repair")
        )
    desk = RepairDesk(deployment, filled)
    asked = Asked(EDGE, "clicks", NOON, NOON + 60_000)
    with pytest.raises(UserError, match=r"by os-user:bob on h .* wait for its end"):
        desk.repair(asked, "", ALICE)
    later = RepairDesk(deployment, filled, now=lambda: now_ms() + 3_700_000)
    with pytest.raises(UserError, match="other messages are missing now"):
        later.repair(asked, "", ALICE)


def test_what_was_broken_off_is_not_said_to_go_on(deployment: Deployment, filled: Store) -> None:
    with filled.write() as connection:
        for process in (PROCESS, "command"):
            connection.execute(
                decisions.insert().values(at=1, process=process, action="repair", outcome="running")
            )
    RepairDesk(deployment, filled).end_abandoned()
    command, ours = decided(filled)
    assert (command["outcome"], command["finished_at"]) == ("running", 0)
    assert ours["outcome"] == "broke off"
    assert ours["finished_at"] > 0


def test_a_loss_is_repaired_by_the_page(tmp_path: Any, app_of: Callable[..., Browsers]) -> None:
    with world_in(tmp_path) as world:
        one = publisher(world, "dc1", b"a")
        steady(world, one, ms=4000)
        log = world.clusters["aggregate"].log("t")
        log.cut(len(log.batches) - 3)
        heartbeats(world, one, ms=7000)
        lost = [w for w, row in world.verdicts(EDGE).items() if row["state"] == "LOSS"]
        opened = cast("Callable[[ExitStack], Any]", lambda _stack: world)
        desk = RepairDesk(world.deployment, world.store, opened=opened)
        alice = app_of(world.store, world.deployment, desk)("alice")
        address = f"/act/repair?edge={EDGE}&topic=t&window={lost[0]}"
        assert "Repair…" in alice.get(f"/window?edge={EDGE}&topic=t&window={lost[0]}").text
        first = alice.get(address)
        assert first.status_code == 200
        asked = Asked(EDGE, "t", lost[0], lost[0] + world.deployment.audit.window_ms)
        ended(desk, asked)
        planned = alice.get(address)
        assert "refresh" not in planned.headers
        assert "copy" in planned.text
        form = alice.open(address)
        assert form["digest"]
        assert alice.post("/act/repair", {**form, "digest": "0" * 32}).status_code == 409
        begun = alice.post("/act/repair", form)
        assert begun.status_code == 303, begun.text
        job = ended(desk, asked)
        assert job.phase is Phase.DONE, job.error
        result = alice.get(begun.headers["location"]).text
        assert "messages were copied for User:alice" in result
        with world.store.read() as connection:
            copied = sum(connection.execute(select(repairs.c.copied)).scalars())
        assert copied == sum(one.copied.size for one in job.results) > 0
        (row,) = decided(world.store)
        assert (row["outcome"], row["who"]) == ("repaired", "User:alice")
        assert row["detail"]["copied"] == copied
        assert "repaired" in alice.get(f"/window?edge={EDGE}&topic=t&window={lost[0]}").text
        desk.close()


def test_what_cannot_be_repaired_is_not_offered(
    browser: Browsers, desk: RepairDesk, filled: Store
) -> None:
    """The page of a loss of which nothing is left offered to repair it all the same."""
    key = CellKey("orders", 1, NOON, "web-7", "00112233445566aa")
    missing = RangeSet.from_list([10, 13])
    cell = CellVerdict(key=key, state=State.LOSS, claimed=9, missing=missing, missing_count=4)
    lost = Verdict("producer-to-dc1", "orders", NOON, State.LOSS, 9, 5, missing=4, cells=(cell,))
    with filled.write() as connection:
        record_verdicts(connection, [lost], COLLECTOR, NOON + 600_000)
    alice = browser("alice")
    address = f"/act/repair?edge=producer-to-dc1&topic=orders&window={NOON}"
    alice.get(address)
    ended(desk, Asked("producer-to-dc1", "orders", NOON, NOON + 60_000))
    page = alice.get(address).text
    assert "10–13" in page
    plan = f"/api/v1/repair-plan?edge=producer-to-dc1&topic=orders&from={NOON}&to={NOON + 60_000}"
    assert plan.replace("&", "&amp;") in page
    (row,) = alice.get(plan).json()["repair_plan"]
    assert (row["server"], row["count"], row["sequences"]) == ("web-7", 4, [10, 13])
    assert "[10,13]" in alice.get(plan.replace("-plan?", "-plan.csv?")).text.replace('""', '"')
    assert browser("bob").get(plan).status_code == 403
    assert alice.get(plan.replace("orders", "others")).status_code == 404
    assert "Nothing of it can be copied" in page
    assert "--apply" not in page
    assert 'name="token"' not in page
