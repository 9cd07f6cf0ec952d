"""A group member whose answers get lost, whose coordinator is nobody, whose application is away;
and the shell's worker, which dies of nothing."""

from __future__ import annotations

import sys
import threading
from functools import partial
from typing import Any

import pytest
from group_driver import ME, T0, T1, Driver
from group_settings import consumer_settings

from tallymark.client.group.coordinator_requests import CoordinatorRequests
from tallymark.client.group.state_machine import actions as act
from tallymark.client.group.state_machine import events as ev
from tallymark.client.group.state_machine.state import Phase
from tallymark.client.group.state_machine.timers import next_due_ms
from tallymark.client.group.worker import Worker
from tallymark.errors import CODES, ClientFailedError, KafkaError, TallymarkError
from tallymark.protocol.messages import JoinGroupResponse, SyncGroupResponse


@pytest.mark.parametrize("answer", ["NOT_COORDINATOR", None])
def test_who_is_named_and_is_not_the_coordinator_is_not_asked_in_a_loop(answer: str | None) -> None:
    """A broker that had just handed the group over was still named by the others: heartbeat and
    question who it is followed each other as fast as the network went."""
    its = Driver().stable(T0)
    pauses: list[int] = []
    for _ in range(6):
        its.beat(answer) if answer else its.tell(ev.BeatFailed())
        due = next_due_ms(its.state) or 0
        pauses.append(0 if its.state.seeking else due - its.now)
        if not its.state.seeking:
            assert its.tick(pauses[-1]) == [act.FindCoordinator()]
        its.tell(ev.Found())
    assert pauses == [0, 100, 200, 400, 800, 1600]
    its.beat()
    its.tick(1000)
    its.tell(ev.BeatFailed())
    assert its.state.seeking  # an answer in between, and it is news again


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_join_whose_answer_is_lost_does_not_keep_it_out(strategy: str) -> None:
    """The join went into a connection that had died in silence; the heartbeats, on another one,
    said that the member was put out, and it waited for the join's answer for five minutes."""
    its = Driver(strategy).stable(T0)
    its.beat("REBALANCE_IN_PROGRESS")
    if its.state.phase is Phase.RELEASING:
        its.tell(ev.Done(its.ticket))
    assert its.state.phase is Phase.JOINING
    old = its.ticket
    assert its.beats_within(2_000)
    *_, join = its.beat("UNKNOWN_MEMBER_ID")
    assert isinstance(join, act.Join)
    assert (join.member_id, join.owned, join.generation) == ("", (), -1)
    assert its.tell(ev.Joined(old, "me", 2, strategy)) == []
    assert its.state.owned == frozenset()


def test_a_generation_that_is_over_is_told_twice_before_it_is_believed() -> None:
    """Of a static member that does not join in time the group keeps the place: no heartbeat says
    that it is unknown, and a lost join was waited for until its session was over."""
    its = Driver("cooperative-sticky", static=True).stable(T0)
    its.beat("REBALANCE_IN_PROGRESS")
    assert its.beat("ILLEGAL_GENERATION") == []
    assert its.state.owned == {T0}
    stop, forget, join = its.beat("ILLEGAL_GENERATION")
    assert (stop, forget) == (act.StopFetchers((T0,)), act.Forget((T0,)))
    assert isinstance(join, act.Join)
    assert join.member_id == "me"
    assert its.beat("ILLEGAL_GENERATION") == []  # of a generation that it has left


def test_who_is_too_slow_stays_out_also_when_the_group_went_on() -> None:
    """Put out while it waited for the slow application, it joined again at once, took partitions
    away from the others, and gave them up again."""
    its = Driver().stable(T0)
    its.tell(ev.Slow())
    assert its.beat("UNKNOWN_MEMBER_ID") == [act.StopFetchers((T0,))]
    assert its.tell(ev.Done(its.ticket)) == [act.Forget((T0,))]
    assert its.state.phase is Phase.IDLE
    (join,) = its.tell(ev.Asked())
    assert isinstance(join, act.Join)


@pytest.mark.parametrize("begin", [lambda its: its.beat("REBALANCE_IN_PROGRESS"),
                                   lambda its: its.tell(ev.Slow())])  # fmt: skip
def test_leaving_while_all_is_given_up_asks_the_application_once(begin: Any) -> None:
    """``before_release`` was called twice: for the rebalance, and for the shutdown behind it."""
    its = Driver().stable(T0, T1)
    begin(its)
    assert its.state.phase in (Phase.RELEASING, Phase.GIVING_UP)
    assert its.tell(ev.Stop()) == []
    assert its.tell(ev.Done(its.ticket)) == [act.Forget((T0, T1)), act.Leave(its.ticket, "me")]
    assert its.tell(ev.Done(its.ticket)) == [act.Close()]


def test_leaving_while_some_is_given_up_gives_up_the_rest() -> None:
    its = Driver("cooperative-sticky").stable(T0, T1)
    its.beat("REBALANCE_IN_PROGRESS")
    its.tell(ev.Joined(its.ticket, "me", 2, "cooperative-sticky"))
    its.tell(ev.Synced(its.ticket, (T0,)))
    assert its.state.phase is Phase.REVOKING
    old = its.ticket
    _, release = its.tell(ev.Stop())
    assert release == act.Release(its.ticket, (T0, T1))
    assert its.tell(ev.Done(old)) == []
    assert its.tell(ev.Done(its.ticket))[0] == act.Forget((T0, T1))


def test_a_leader_that_is_put_out_while_it_divides_joins_again() -> None:
    its = Driver()
    its.tell(ev.Found())
    its.tell(ev.Joined(its.ticket, "me", 3, "range", leads=True, members=ME))
    assert its.state.phase is Phase.ASSIGNING
    (join,) = its.beat("UNKNOWN_MEMBER_ID")
    assert isinstance(join, act.Join)
    assert its.tell(ev.Topics(its.ticket - 1, {"t": (0,)})) == []


# -- the shell --------------------------------------------------------------------------------


class Link:
    """Takes down in which order it is asked and hung up."""

    request_timeout = 1.0

    def __init__(self, *answers: Any) -> None:
        self.log: list[str] = []
        self._answers = list(answers)

    def hang_up(self) -> None:
        self.log.append("hang up")

    async def ask(self, build: Any, of: type, at_most: int, **how: Any) -> Any:
        self.log.append(of.__name__)
        return self._answers.pop(0)


def asked(questions: CoordinatorRequests, action: act.Action) -> ev.Event:
    question, _ = questions.of(action)
    with pytest.raises(StopIteration) as ended:
        question.send(None)
    event: ev.Event = ended.value.value
    return event


def test_every_rebalance_has_a_connection_of_its_own() -> None:
    """The one for joins was idle between two rebalances, for hours: a firewall forgets it without
    a word, and the next join was never answered."""
    link: Any = Link(JoinGroupResponse(generation_id=1), SyncGroupResponse(error_code=27),
                     SyncGroupResponse())  # fmt: skip
    questions = CoordinatorRequests(link, consumer_settings())
    asked(questions, act.Join(1, "", -1, ("t",), (), "why"))
    asked(questions, act.Sync(2, "me", 1, "range", {}))
    asked(questions, act.Sync(3, "me", 1, "range", {}))
    assert link.log == ["hang up", *("JoinGroupRequest", "SyncGroupRequest"),
                        *("SyncGroupRequest", "hang up")]  # fmt: skip


def test_the_worker_tells_what_its_jobs_die_of_and_goes_on() -> None:
    """``sys.exit()`` in the application's before_release ended the thread without a word: the next
    rebalance waited for it for ever."""
    told: list[Exception] = []
    done = threading.Event()
    worker = Worker(told.append)
    worker.start()
    refused = KafkaError(CODES["GROUP_AUTHORIZATION_FAILED"], "g")
    for error in (refused, ZeroDivisionError("a bug"), SystemExit(3)):
        worker.put(partial(fail, error))
    worker.put(done.set)
    worker.end()
    assert worker.join(30)
    assert done.is_set()
    assert told[0] is refused
    assert [type(error) for error in told[1:]] == [ClientFailedError, ClientFailedError]
    assert [str(error.__cause__) for error in told[1:]] == ["a bug", "3"]
    assert all(isinstance(error, TallymarkError) for error in told)


def fail(error: BaseException) -> None:
    if isinstance(error, SystemExit):
        sys.exit(error.code)
    raise error
