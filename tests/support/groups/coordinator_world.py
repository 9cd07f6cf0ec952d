"""Three brokers with the groups of one partition, under a seed: appends, followers that copy, moves
of the lead that old leaders and their coordinators hear of late, cut tails; and clients that check.

The brokers' logs, partitions, handlers and coordinators are the real ones. Who leads is decided
here, and followers copy by a call; all three are in the ISR, so what is committed is what all logs
have in common.

========================================  ==========================================================
``no_answer_before_commit``               what a client is told is in all three logs
``a_later_leader_has_what_was_told``      and in the log of each leader after that
``offsets_never_run_backwards``           a consumer reads no offset below one that it was told
``one_log``                               logs with the same offset and epoch have the same bytes
``everything_is_answered``                when all is quiet and committed nobody waits, but a join
                                          for a member whose session has not ended: a record that
                                          no leader had for a while may come back with another log
========================================  ==========================================================
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from random import Random
from typing import Any, Final

from replicated_groups import ReplicatedGroups, commit, fetch, fetched, heartbeat, join, sync

from tallymark.broker.coordinators.state_log import replay_log
from tallymark.broker.metrics.error_codes import error_codes
from tallymark.broker.partitions.partition import Partition
from tallymark.errors import CODES, KafkaError
from tallymark.groups.group import State
from tallymark.groups.state import GroupsState
from tallymark.log import Log
from tallymark.protocol.messages import OffsetFetchRequest
from tallymark.protocol.records.batch import Batch, split_batches
from tallymark.protocol.schema import Message

BROKERS: Final = 3
CLIENTS: Final = 4
_JOIN_AGAIN: Final = tuple(
    CODES[name] for name in ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS")
)


class Broken(AssertionError):
    """An invariant does not hold."""


class InlineThreads(asyncio.SelectorEventLoop):
    """An event loop whose threads run at once, so that a seed replays equal."""

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run it now."""
        future: asyncio.Future[Any] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


class Broker:
    """One broker. ``leads``: it believes so. ``unheard``: leads that it lost, of which its
    coordinator has not heard yet."""

    def __init__(self) -> None:
        self.groups = ReplicatedGroups()
        self.epoch = -1
        self.leads = False
        self.known = 0
        """The high watermark that it knows."""
        self.ends: dict[int, int] = {}
        """As leader: the ends that followers have reported in this epoch."""
        self.unheard: list[Partition] = []

    @property
    def log(self) -> Log:
        """Its log of the partition."""
        return self.groups.log


class Client:
    """A consumer of a group of its own: one request at a time. A member joins, syncs and sends
    heartbeats; others commit and read."""

    def __init__(self, number: int) -> None:
        self.group = f"g{number}"
        self.is_member = number % 2 == 1
        self.next = 1
        self.member, self.generation, self.ask = "", 0, "join"
        self.told_offset, self.told_generation = -1, 0
        self.waiting: asyncio.Future[Any] | None = None
        self.done: Callable[[Any], None] = lambda _: None
        self.vouches = False
        """A good answer to the heartbeat under way vouches for the generation's record."""


class World:
    """The brokers, and who leads."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.brokers = [Broker() for _ in range(BROKERS)]
        self.clients = [Client(number) for number in range(CLIENTS)]
        self.leader = -1
        self.epoch = -1
        self.loads: set[asyncio.Task[None]] = set()
        self.history: list[str] = []

    # --- a run

    async def run(self, steps: int) -> None:
        """Random steps, then quiet."""
        self.elect(0)
        acts = [self.ask] * 8 + [self.copy] * 8 + [self.hear] * 2 + [self.tell] * 2 + [self.move]
        for _ in range(steps):
            await self.random.choice(acts)()
            await self.turns(self.random.randrange(3))
        await self.heal()

    async def turns(self, count: int) -> None:
        """Turns of the event loop, then look at the answers."""
        for _ in range(count):
            await asyncio.sleep(0)
        self.look()

    def note(self, text: str) -> None:
        """A line of the history."""
        self.history.append(text)

    # --- leads

    async def move(self) -> None:
        """Another broker is elected, or the same one anew."""
        self.elect(self.random.randrange(BROKERS))

    def elect(self, number: int) -> None:
        """A member of the ISR leads in the next epoch. It hears of it at once."""
        self.epoch += 1
        before, self.leader = self.leader, number
        broker = self.brokers[number]
        self.note(f"elect {number} epoch={self.epoch} end={broker.log.end_offset}")
        self.check_leader(broker)
        if broker.leads or before == number:
            self.lose(broker)
        broker.leads, broker.epoch, broker.ends = True, self.epoch, {}
        partition = broker.groups.lead_of(self.epoch, broker.known)
        task = asyncio.create_task(broker.groups.shards.take(partition))
        self.loads.add(task)

    def lose(self, broker: Broker) -> None:
        """The broker hears that it lost the lead; its coordinator hears of it later."""
        broker.leads = False
        broker.known = max(broker.known, broker.groups.partition.high_watermark)
        broker.groups.partition.withdraw()
        broker.unheard.append(broker.groups.partition)

    async def hear(self) -> None:
        """A broker hears who leads, and follows: it cuts what the leader does not have."""
        number = self.random.randrange(BROKERS)
        self.follow(number)

    def follow(self, number: int) -> None:
        """The same, for one broker."""
        broker, leader = self.brokers[number], self.brokers[self.leader]
        if number == self.leader or broker.epoch == self.epoch:
            return
        if broker.leads:
            self.lose(broker)
        end = common_end(broker.log, leader.log)
        self.note(f"follow {number} epoch={self.epoch} end={broker.log.end_offset} cut={end}")
        if end < broker.known:
            raise Broken(f"one_log: broker {number} gives up committed records from {end} on")
        broker.groups.cut(end)
        broker.epoch = self.epoch
        broker.groups.follow(self.epoch, broker.known)

    async def tell(self) -> None:
        """A coordinator hears of a lead that was lost long ago."""
        broker = self.random.choice(self.brokers)
        if broker.unheard:
            broker.groups.shards.give_up(broker.unheard.pop(0))

    async def copy(self) -> None:
        """A follower fetches."""
        self.fetch(self.random.randrange(BROKERS))

    def fetch(self, number: int) -> None:
        """Report its end, and copy a batch."""
        broker, leader = self.brokers[number], self.brokers[self.leader]
        if number == self.leader or broker.epoch != self.epoch:
            return
        leader.ends[number] = broker.log.end_offset
        if len(leader.ends) == BROKERS - 1:
            committed = min(*leader.ends.values(), leader.log.end_offset)
            leader.groups.partition.commit(committed)
        if broker.log.end_offset < leader.log.end_offset:
            batch = next(iter(batches(leader.log, broker.log.end_offset)))
            broker.groups.copy(bytes(batch.data), self.epoch)
        broker.known = max(
            broker.known, min(leader.groups.partition.high_watermark, broker.log.end_offset)
        )
        broker.groups.partition.commit(broker.known)

    # --- clients

    async def ask(self) -> None:
        """A client sends its next request: to the leader, or with old metadata to a broker that
        does not lead any more."""
        client = self.random.choice(self.clients)
        if client.waiting is not None:
            return
        request, version, client.done = self.next_request(client)
        number = self.random.choice([self.leader] * 4 + list(range(BROKERS)))
        if isinstance(request, OffsetFetchRequest) and self.brokers[number].leads:
            number = self.leader  # one that has not heard of its loss may be behind
        groups = self.brokers[number].groups
        client.vouches = False
        with suppress(KafkaError):
            found = groups.shard.group(client.group)
            client.vouches = found is not None and found.state is State.STABLE
        self.note(f"{client.group} asks {number}: {type(request).__name__} {client.next}")
        client.waiting = await groups.start(request, version)
        self.look()

    def next_request(self, client: Client) -> tuple[Message, int, Callable[[Any], None]]:
        """The request, its version, and what its good answer tells."""
        if not client.is_member:
            if self.random.random() < 0.5:
                return fetch(client.group), 7, lambda answer: self.read(client, answer)
            client.next += 1
            offset = client.next
            return commit(client.group, offset), 7, lambda _: self.told(client, offset)
        if client.ask == "beat" and self.random.random() < 0.2:
            client.ask = "join"
        if client.ask == "join":
            return join(client.group, client.member), 3, lambda got: self.joined(client, got)
        if client.ask == "sync" and self.random.random() < 0.6:  # members beat meanwhile, too
            request = sync(client.group, client.member, client.generation)
            return request, 3, lambda _: self.synced(client)
        beat = heartbeat(client.group, client.member, client.generation)
        return beat, 3, lambda _: self.beaten(client)

    def look(self) -> None:
        """Take the answers that have left."""
        for client in self.clients:
            if client.waiting is not None and client.waiting.done():
                answer, client.waiting = client.waiting.result(), None
                codes = error_codes(answer)
                self.note(f"{client.group} is told {type(answer).__name__} {codes}")
                if not codes:
                    client.done(answer)
                elif codes[0] in _JOIN_AGAIN:
                    client.ask = "join"
                    if codes[0] == CODES["UNKNOWN_MEMBER_ID"]:
                        client.member = ""

    def read(self, client: Client, answer: Any) -> None:
        """An offset was read."""
        offset = fetched(answer)
        if offset < client.told_offset:
            raise Broken(f"offsets_never_run_backwards: {offset} after {client.told_offset}")
        self.told(client, offset)

    def told(self, client: Client, offset: int) -> None:
        """The client was told that its offset is this one, or more."""
        client.told_offset = max(client.told_offset, offset)
        self.check_committed()

    def joined(self, client: Client, answer: Any) -> None:
        """The client is a member, without an assignment yet."""
        client.member, client.generation = answer.member_id, answer.generation_id
        client.ask = "sync"

    def synced(self, client: Client) -> None:
        """The client has an assignment."""
        client.ask = "beat"
        client.told_generation = max(client.told_generation, client.generation)
        self.check_committed()

    def beaten(self, client: Client) -> None:
        """The client's generation is in force."""
        if client.vouches:
            self.synced(client)

    # --- invariants

    def check_committed(self) -> None:
        """What was told is in all logs."""
        common = min(self.brokers, key=lambda broker: broker.log.end_offset)
        end = min(common_end(common.log, broker.log) for broker in self.brokers)
        state = GroupsState()
        for batch in batches(common.log, 0):
            if batch.header.next_offset <= end:
                for record in batch.records():
                    state.replay((bytes(record.key or b""), record.value))
        self.compare(state, "no_answer_before_commit")

    def check_leader(self, broker: Broker) -> None:
        """What was told is in the log of the new leader."""
        self.compare(replay_log(broker.log, GroupsState()), "a_later_leader_has_what_was_told")

    def compare(self, state: GroupsState, name: str) -> None:
        """Compare what clients were told with a state."""
        for client in self.clients:
            found = state.offsets.get(client.group, "t", 0)
            if (found.offset if found else -1) < client.told_offset:
                raise Broken(f"{name}: {client.group} was told {client.told_offset}, not {found}")
            stored = state.metadata.get(client.group)
            if (stored.generation if stored else 0) < client.told_generation:
                raise Broken(f"{name}: {client.group} was told {client.told_generation}: {stored}")

    async def heal(self) -> None:
        """Everybody hears of everything, all is copied: nobody waits."""
        for number in range(BROKERS):
            self.follow(number)
        for broker in self.brokers:
            for lost in broker.unheard:
                broker.groups.shards.give_up(lost)
        await asyncio.gather(*self.loads)
        leader = self.brokers[self.leader]
        for _ in range(leader.log.end_offset + 2):
            for number in range(BROKERS):
                self.fetch(number)
        await self.turns(10)
        waiting = [client.group for client in self.clients if client.waiting is not None]
        if len(waiting) > sum(shard.parked for shard in leader.groups.shards.shards()):
            raise Broken(f"everything_is_answered: {waiting} wait")
        self.check_leader(leader)
        for client in self.clients:
            answer = await (await leader.groups.start(fetch(client.group), 7))
            if error_codes(answer):
                raise Broken(f"everything_is_answered: {client.group} {error_codes(answer)}")
            self.read(client, answer)

    def close(self) -> None:
        """Stop the timers."""
        for broker in self.brokers:
            broker.groups.shards.close()


def batches(log: Log, at: int) -> list[Batch]:
    """All batches from an offset on."""
    if at >= log.end_offset:
        return []
    return list(split_batches(log.read(at, 10**8).read()))


def common_end(one: Log, other: Log) -> int:
    """Where two logs part."""
    end = 0
    for mine, theirs in zip(batches(one, 0), batches(other, 0), strict=False):
        same_epoch = mine.header.partition_leader_epoch == theirs.header.partition_leader_epoch
        if not same_epoch:
            break
        if bytes(mine.data) != bytes(theirs.data):
            raise Broken(f"one_log: two batches at {end} of one epoch")
        end = mine.header.next_offset
    return end


def simulate(seed: int, steps: int = 150) -> World:
    """Run a world; raises :class:`Broken`, with its history."""
    world: World

    async def story() -> None:
        nonlocal world
        world = World(seed)
        try:
            await world.run(steps)
        except Broken as error:
            raise Broken(f"seed {seed}: {error}\n" + "\n".join(world.history)) from None
        finally:
            waiting = [each.waiting for each in world.clients if each.waiting is not None]
            for task in (*world.loads, *waiting):
                task.cancel()
            world.close()
            await asyncio.gather(*world.loads, *waiting, return_exceptions=True)

    with asyncio.Runner(loop_factory=InlineThreads) as runner:
        runner.run(story())
    return world
