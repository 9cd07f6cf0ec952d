"""When a process of the stack is started, restarted, held and given up."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tallymark.processes.supervisor import state
from tallymark.processes.supervisor.state import Child, State

BROKER = Child("broker")


def ready_at(now_ms: int, child: Child = BROKER) -> Child:
    return state.ready(state.started(child, 17, now_ms), now_ms)


def test_a_process_waits_for_those_it_needs() -> None:
    mirror = Child("mirror", after=("broker",))
    assert state.tick(mirror, {"broker": BROKER}, 0) == "none"
    assert state.tick(mirror, {"broker": ready_at(0)}, 0) == "start"


def test_a_process_that_served_is_restarted_for_ever_with_growing_delays() -> None:
    child = ready_at(0)
    delays = []
    for _ in range(10):
        child = state.exited(child, "exit 1", 100)
        assert child.state is State.BACKOFF
        delays.append(child.delay_ms)
        assert state.tick(child, {}, 100 + child.delay_ms - 1) == "none"
        assert state.tick(child, {}, 100 + child.delay_ms) == "start"
        child = ready_at(100, child)
    assert delays[:4] == [500, 1000, 2000, 4000]
    assert delays[-1] == state.MAX_DELAY_MS


def test_a_stable_process_starts_from_the_first_delay_again() -> None:
    child = ready_at(0)
    for _ in range(4):
        child = ready_at(100, state.exited(child, "", 100))
    died = state.exited(child, "", 100 + state.STABLE_MS)
    assert died.delay_ms == state.FIRST_DELAY_MS


def test_a_process_that_never_served_is_given_up() -> None:
    child = BROKER
    for _ in range(state.EARLY_DEATHS):
        child = state.exited(state.started(child, 1, 0), "exit 1: port taken", 0)
    assert child.state is State.GIVEN_UP
    assert child.reason == "exit 1: port taken"
    assert state.tick(child, {}, 10**9) == "none"


def test_a_held_process_stays_down_until_it_is_released() -> None:
    child = state.exited(state.hold(ready_at(0), 1), "killed by SIGKILL", 2)
    assert child.state is State.HELD
    assert state.tick(child, {}, 10**9) == "none"
    assert state.tick(state.release(child, 3), {}, 3) == "start"


def test_releasing_what_is_not_held_changes_nothing() -> None:
    assert state.release(ready_at(0), 1) == ready_at(0)


def test_a_process_that_is_told_to_stop_is_not_restarted() -> None:
    child = state.exited(state.stop(ready_at(0), 1), "exit 0", 2)
    assert child.state is State.STOPPED
    assert state.tick(child, {}, 10**9) == "none"


def test_what_was_never_started_is_stopped_at_once() -> None:
    assert state.stop(BROKER, 0).state is State.STOPPED


def test_a_word_of_readiness_counts_only_while_starting() -> None:
    held = replace(ready_at(0), state=State.HELD)
    assert state.ready(held, 5) is held


@given(
    st.lists(st.sampled_from(["start", "ready", "exit", "hold", "release", "stop"]), max_size=30)
)
def test_a_pid_is_known_exactly_while_a_process_runs(events: list[str]) -> None:
    child, running = BROKER, False
    for now, event in enumerate(events):
        if event == "start" and not running and state.tick(child, {}, now * 100_000) == "start":
            child, running = state.started(child, 9, now), True
        elif event == "ready" and running:
            child = state.ready(child, now)
        elif event == "exit" and running:
            child, running = state.exited(child, "x", now), False
        elif event == "hold":
            child = state.hold(child, now)
        elif event == "release":
            child = state.release(child, now)
        elif event == "stop":
            child = state.stop(child, now)
        assert (child.pid is not None) == running
