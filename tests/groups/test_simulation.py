"""A group under random joins, syncs, heartbeats, departures, silence, commits, failing appends and
restarts; many seeds, named invariants after every step.

Clients here are partly sensible (they do what the last answer asks for) and partly not: they use
old ids and generations, send things twice, and vanish in the middle of anything.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from group_coordinator import GROUP, Coordinator

from tallymark.errors import CODES
from tallymark.groups.group import GroupConfig, State, to_metadata
from tallymark.groups.inputs import JoinReply, Leaver, SyncReply
from tallymark.groups.offsets import Commit, Committer
from tallymark.groups.state import GroupsState

PROTOCOLS = (
    (("range", b"a"),),
    (("range", b"a"), ("sticky", b"b")),
    (("sticky", b"b"), ("range", b"c")),
    (("sticky", b"b"),),
)
SESSIONS = (6_000, 10_000, 30_000)
REBALANCES = (0, 5_000, 20_000, 60_000)
LONGEST_WAIT_MS = 300_000 + 60_000 + 30_000


@dataclass
class Client:
    """What a client believes; ``join`` and ``sync`` are the tickets it waits for."""

    instance_id: str | None = None
    member_id: str = ""
    generation: int = -1
    leads: bool = False
    members: tuple[str, ...] = ()
    join: int | None = None
    sync: int | None = None
    settled: bool = False


@dataclass
class World:
    """The coordinator, its clients, and what must hold."""

    seed: int
    clients: list[Client] = field(default_factory=list[Client])
    generation: int = 0
    syncs: int = 0
    told: dict[int, bytes] = field(default_factory=dict[int, bytes])
    offsets: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    checked: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        delay = self.random.choice((0, 0, 1_000, 3_000))
        size = self.random.choice((3, 10_000, 10_000))
        self.at = Coordinator(GroupConfig(initial_rebalance_delay_ms=delay, max_size=size))
        names = (None, "one", None, "two", None, "one")[: self.random.randrange(2, 7)]
        self.clients = [Client(instance_id=name) for name in names]

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
            self.read_answers()
            self.check()
        self.clients.clear()
        self.at.wait(3 * LONGEST_WAIT_MS)
        self.check()
        nothing_is_parked_for_ever(self)

    def step(self) -> None:
        client = self.random.choice(self.clients)
        act = self.random.choices(
            (self.go_on, self.heartbeat, self.leave, self.commit, self.odd, self.wait, self.fault),
            weights=(60, 8, 1, 10, 2, 14, 2),
        )[0]
        act(client)

    # --- what a sensible client does

    def go_on(self, client: Client) -> None:
        if client.join is not None or client.sync is not None:
            return
        if client.generation < 0 or self.random.random() < 0.03:
            client.join = self.at.join(
                client.member_id,
                instance_id=client.instance_id,
                protocols=self.random.choices(PROTOCOLS, weights=(1, 12, 3, 1))[0],
                session_timeout_ms=self.random.choice(SESSIONS),
                rebalance_timeout_ms=self.random.choice(REBALANCES),
                must_know_id=self.random.random() < 0.7,
                may_skip_assignment=self.random.random() < 0.5,
            )
        elif client.settled:
            self.heartbeat(client)
        else:
            self.syncs += 1
            tag = f"{client.generation}.{self.syncs}".encode()
            parts = dict.fromkeys(client.members, tag) if client.leads else {}
            client.sync = self.at.sync(
                client.member_id,
                client.generation,
                parts,
                instance_id=client.instance_id if self.random.random() < 0.5 else None,
            )

    def heartbeat(self, client: Client) -> None:
        code = self.at.heartbeat(client.member_id, client.generation)
        if code:
            self.obey(client, code)

    def leave(self, client: Client) -> None:
        by_name = client.instance_id is not None and self.random.random() < 0.5
        leaver = Leaver("" if by_name else client.member_id, client.instance_id)
        self.at.leave(leaver)
        self.forget(client)

    def commit(self, client: Client) -> None:
        alone = self.random.random() < 0.2
        committer = Committer() if alone else Committer(client.member_id, None, client.generation)
        place, offset = ("t", self.random.randrange(3)), self.random.randrange(1000)
        group = self.at.group
        member = group.members.get(committer.member_id)
        code = self.at.commit([Commit(*place, offset)], committer)[0]
        if code == 0:
            self.offsets[place] = offset
            only_members_commit = group.state is State.EMPTY or (
                member is not None
                and committer.generation == group.generation
                and group.state is not State.COMPLETING_REBALANCE
            )
            assert only_members_commit

    # --- what goes wrong

    def odd(self, client: Client) -> None:
        kind = self.random.randrange(4)
        if kind == 0:  # the process dies, another takes its place
            self.forget(client)
        elif kind == 1:  # a zombie with an old generation
            self.at.sync(client.member_id, self.random.randrange(5))
        elif kind == 2:  # everything twice
            self.at.join(client.member_id, instance_id=client.instance_id, protocols=PROTOCOLS[1])
        else:
            self.at.expire_offsets(self.random.choice((0, 10_000, 10**9)))
            kept = self.at.state.offsets.of_group(GROUP)
            self.offsets = {(topic, part): found.offset for topic, part, found in kept}
            if not self.at.state.metadata and not self.at.group.generation:
                self.generation = 0  # the group has gone; another will begin under its name
                self.told.clear()

    def wait(self, _: Client) -> None:
        self.at.wait(self.random.choice((1, 1, 50, 200, 1_000, 1_000, 3_000, 12_000)))

    def fault(self, _: Client) -> None:
        if self.random.random() < 0.5:
            self.at.fail_with = self.random.choice((-1, CODES["NOT_COORDINATOR"]))
            return
        self.at.restart()
        self.generation = self.at.group.generation
        for client in self.clients:
            client.join = client.sync = None  # their connections are gone

    # --- answers

    def read_answers(self) -> None:
        for client in self.clients:
            if client.join in self.at.answers:
                self.joined(client, self.at.joined(client.join))
            if client.sync in self.at.answers:
                self.synced(client, self.at.synced(client.sync))

    def joined(self, client: Client, reply: JoinReply) -> None:
        client.join = None
        if reply.error:
            client.member_id = reply.member_id
            self.obey(client, reply.error)
            return
        client.member_id, client.generation = reply.member_id, reply.generation
        client.settled = False
        client.leads = reply.leader == reply.member_id and not reply.skip_assignment
        client.members = tuple(member_id for member_id, _, _ in reply.members)
        assert not client.leads or client.member_id in client.members, "the leader sees all"

    def synced(self, client: Client, reply: SyncReply) -> None:
        client.sync = None
        client.settled = not reply.error
        if reply.error:
            self.obey(client, reply.error)
        elif reply.assignment:
            tag = self.told.setdefault(client.generation, reply.assignment)
            assert reply.assignment == tag, "one generation has one assignment"

    def obey(self, client: Client, code: int) -> None:
        client.generation = -1
        if code in (CODES["UNKNOWN_MEMBER_ID"], CODES["FENCED_INSTANCE_ID"]):
            client.member_id = ""

    def forget(self, client: Client) -> None:
        client.member_id, client.generation, client.join, client.sync = "", -1, None, None

    # --- invariants

    def check(self) -> None:
        for invariant in INVARIANTS:
            invariant(self)
        self.checked += 1


def a_generation_never_comes_back(world: World) -> None:
    assert world.at.group.generation >= world.generation
    world.generation = world.at.group.generation


def there_is_one_leader_and_it_is_a_member(world: World) -> None:
    group = world.at.group
    if group.state in (State.COMPLETING_REBALANCE, State.STABLE):
        assert group.leader in group.members
    assert group.leader is None or group.leader in group.members


def a_static_id_has_one_holder(world: World) -> None:
    names = [m.instance_id for m in world.at.group.members.values() if m.instance_id]
    assert len(names) == len(set(names))


def every_parked_request_belongs_to_a_member(world: World) -> None:
    waiting = [
        ticket
        for member in world.at.group.members.values()
        for ticket in (member.join_ticket, member.sync_ticket)
        if ticket is not None
    ]
    assert len(waiting) == len(set(waiting))
    assert set(waiting) == world.at.parked


def who_waits_fits_the_state(world: World) -> None:
    group = world.at.group
    joins = sum(member.join_ticket is not None for member in group.members.values())
    syncs = sum(member.sync_ticket is not None for member in group.members.values())
    match group.state:
        case State.EMPTY:
            assert not group.members
        case State.PREPARING_REBALANCE:
            assert syncs == 0
            assert group.join_deadline_ms is not None
        case State.COMPLETING_REBALANCE:
            assert joins == 0
            assert group.sync_deadline_ms is not None
        case _:
            assert joins == syncs == 0
    assert group.unsynced <= group.members.keys()


def members_share_a_protocol(world: World) -> None:
    group = world.at.group
    if group.state in (State.COMPLETING_REBALANCE, State.STABLE):
        assert all(
            group.protocol in [name for name, _ in member.protocols]
            for member in group.members.values()
        )


def what_is_due_is_done(world: World) -> None:
    deadline = world.at.group.next_deadline_ms
    assert deadline is None or deadline >= world.at.ms


def replay_gives_what_is_kept(world: World) -> None:
    replayed = GroupsState()
    for record in world.at.log:
        replayed.replay(record)
    assert replayed == world.at.state


def a_settled_group_is_what_is_kept(world: World) -> None:
    """A stable group is on record to the letter; an empty one too, unless an append failed."""
    group, kept = world.at.group, world.at.state.metadata.get(GROUP)
    on_record = kept is not None and not world.at.stale
    if group.state is State.STABLE or (group.state is State.EMPTY and on_record):
        assert to_metadata(group) == kept


def no_commit_is_lost(world: World) -> None:
    kept = world.at.state.offsets.of_group(GROUP)
    assert {(topic, part): found.offset for topic, part, found in kept} == world.offsets
    assert set(world.at.state.offsets.groups()) <= {GROUP}


def nothing_is_parked_for_ever(world: World) -> None:
    assert world.at.parked == set()
    assert world.at.group.vacant


INVARIANTS = (
    a_generation_never_comes_back,
    there_is_one_leader_and_it_is_a_member,
    a_static_id_has_one_holder,
    every_parked_request_belongs_to_a_member,
    who_waits_fits_the_state,
    members_share_a_protocol,
    what_is_due_is_done,
    replay_gives_what_is_kept,
    a_settled_group_is_what_is_kept,
    no_commit_is_lost,
)


@pytest.mark.parametrize("seed", range(30))
def test_a_group_in_a_random_world(seed: int) -> None:
    world = World(seed)
    world.run(250)
    assert world.checked == 251


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1_000, 1_100))
def test_a_group_in_a_random_world_for_long(seed: int) -> None:
    World(seed).run(1_500)


@pytest.mark.slow
def test_the_simulation_gets_somewhere() -> None:
    """A world in which nothing ever becomes stable would prove nothing."""
    worlds = [World(seed) for seed in range(10)]
    for world in worlds:
        world.run(250)
    assert sum(world.generation for world in worlds) > 60
    assert sum(len(world.told) for world in worlds) > 30
    assert sum(len(world.offsets) for world in worlds) > 10
