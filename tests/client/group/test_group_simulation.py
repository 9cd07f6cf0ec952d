"""Groups of our members in a simulated world, many seeds, with named invariants.

Members join, leave, die and are cut off; answers are late or lost; connections die in silence; the
coordinator restarts; topics grow. What holds at every step is in ``group_invariants``: no two
members hold a partition at the same time, no message is skipped, nothing is stored ahead of what
was handed out, nobody undoes what a partition's next owner has stored. Besides:

* every partition is owned soon after quiet, by members of one generation, in even shares;
* nobody asks in a busy loop.
"""

from __future__ import annotations

import pytest
from group_member import HEARTBEAT_MS, REBALANCE_MS, SESSION_MS, Member
from group_world import World

from tallymark.client.group.state_machine.state import Phase

STRATEGIES = ("range", "roundrobin", "cooperative-sticky", "cooperative-sticky,range")


def something_happens(world: World) -> None:
    chance = world.random.random()
    living = world.living
    some = world.random.choice(living) if living else None
    if chance < 0.06 and len(living) < 5:
        world.join(world.random.choice((None, None, free_instance(world))))
    elif some is None:
        world.join()
    elif chance < 0.08:
        some.kill()
    elif chance < 0.10:
        some.stop()
    elif chance < 0.14:
        some.cut = True
        some.break_connections() if world.random.random() < 0.5 else None
        long = world.random.choice((1_000, SESSION_MS // 2, SESSION_MS * 2))
        world.at(world.random.randrange(long), lambda: mend(some))
    elif chance < 0.16:
        world.restart_coordinator()
    elif chance < 0.17:
        world.coordinator_down = True
        world.at(world.random.randrange(4_000), lambda: come_back(world))
    elif chance < 0.18 and len(world.ends) < 12:
        world.grow()
    elif chance < 0.20:
        some.dead = some.waiting
    elif chance < 0.5:
        some.commit(lambda _: None)


def free_instance(world: World) -> str | None:
    taken = {member.instance for member in world.living}
    return next((name for name in ("one", "two") if name not in taken), None)


def mend(member: Member) -> None:
    member.cut = False


def come_back(world: World) -> None:
    world.coordinator_down = False


def live(world: World, steps: int) -> None:
    """So many times half a second."""
    before, lived = world.requests, set[str]()
    for step in range(steps):
        if step % 10 == 0:
            before, lived = world.requests, set()
        lived |= {member.name for member in world.living}
        something_happens(world)
        lived |= {member.name for member in world.living}
        world.publish()
        for _ in range(5):
            world.run(100)
            for member in world.living:
                member.consume()
        nobody_asks_in_a_busy_loop(world.requests - before, len(lived))


def nobody_asks_in_a_busy_loop(requests: int, members: int) -> None:
    """In five seconds each member may join a few times, and say that it lives; an answer takes
    30 ms. ``members`` have lived in them: those that are dead by now have asked, too."""
    assert requests < 40 * (1 + members), "a busy loop"


def quieten(world: World) -> None:
    """Nothing goes wrong any more; wait for what may have to run out."""
    world.calm = True
    world.coordinator_down = False
    for member in world.living:
        member.cut = False
    world.run(SESSION_MS)
    if not world.living:  # the last one was about to leave
        world.join()
    world.run(SESSION_MS * 2 + REBALANCE_MS + 15 * HEARTBEAT_MS)
    world.grow()  # nobody joins or leaves any more: the leader has to look
    world.run(5 * HEARTBEAT_MS)


def every_partition_is_owned(world: World) -> None:
    group = world.coordinator.group
    for member in world.living:
        assert member.state.phase is Phase.STABLE, (member.name, member.state.phase)
        assert not member.paused
        assert member.state.generation == group.generation
        assert member.fetching == set(member.state.owned) == set(member.positions)
    held = [place for member in world.living for place in member.holding]
    assert sorted(held) == sorted(world.ends)
    sizes = [len(member.fetching) for member in world.living]
    assert max(sizes) - min(sizes) <= len({topic for topic, _ in world.ends})


def nothing_is_left_over(world: World) -> None:
    for _ in range(200):
        for member in world.living:
            member.consume()
    assert dict(world.delivered) == {place: world.delivered[place] for place in world.ends}
    assert all(world.delivered[place] == end for place, end in world.ends.items())


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(3))
def test_a_group_in_a_random_world(seed: int, strategy: str) -> None:
    world = World(seed, strategy)
    live(world, 100)
    quieten(world)
    every_partition_is_owned(world)
    nothing_is_left_over(world)


@pytest.mark.soak
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(1_000, 1_060))
def test_a_group_in_a_random_world_for_long(seed: int, strategy: str) -> None:
    world = World(seed, strategy)
    for _ in range(4):
        live(world, 150)
        quieten(world)
        every_partition_is_owned(world)
        world.calm = False
    nothing_is_left_over(world)


@pytest.mark.slow
def test_the_simulation_gets_somewhere() -> None:
    """A world in which nobody ever consumes, or nothing is ever repeated, would prove nothing."""
    worlds = [World(seed, strategy) for seed in range(3) for strategy in STRATEGIES]
    for world in worlds:
        live(world, 80)
    assert all(world.handed_out > 100 for world in worlds)
    assert sum(world.repeated for world in worlds) > 100
    assert sum(world.coordinator.group.generation for world in worlds) > 50


def test_a_cooperative_member_reads_on_while_others_join() -> None:
    """What does not move is handed out in every moment of the rebalance."""
    world = World(1, "cooperative-sticky")
    world.calm = True
    first = world.join()
    world.run(3_000)
    assert len(first.fetching) == 6
    second = world.join()
    least = 6
    for _ in range(400):
        world.run(20)
        least = min(least, len(first.fetching))
    assert (len(first.fetching), len(second.fetching)) == (3, 3)
    assert least == 3


def test_a_member_that_dies_is_followed_within_its_session() -> None:
    world = World(2, "range")
    world.calm = True
    first, second = world.join(), world.join()
    world.run(5_000)
    assert len(first.fetching) + len(second.fetching) == 6
    second.kill()
    world.run(SESSION_MS + 3 * HEARTBEAT_MS)
    assert len(first.fetching) == 6


def test_a_static_member_that_comes_back_moves_nobody() -> None:
    world = World(3, "range")
    world.calm = True
    other, static = world.join(), world.join("named")
    world.run(5_000)
    generation, had = world.coordinator.group.generation, set(static.fetching)
    static.stop()
    world.run(1_000)
    again = world.join("named")
    world.run(3_000)
    assert again.fetching == had != set()
    assert world.coordinator.group.generation == generation == other.state.generation


def test_a_commit_that_travels_while_the_group_goes_on_undoes_nothing() -> None:
    """It is refused for its generation, and tried again in the next one: without the partitions
    that have gone to another member."""
    world = World(4, "range")
    world.calm = True
    first = world.join()
    world.run(3_000)
    world.publish()
    first.consume()
    second = world.join()
    while first.state.phase is not Phase.RELEASING:
        world.run(20)
    answers: list[object] = []
    first.delay = lambda: 800  # type: ignore[method-assign]
    first.commit(answers.append)
    del first.delay
    world.run(4_000)
    assert len(answers) == 1
    assert (len(first.fetching), len(second.fetching)) == (4, 2)
