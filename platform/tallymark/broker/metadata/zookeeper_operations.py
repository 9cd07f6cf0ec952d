"""What clients ask for, for the event loop: new topics, elections, moves, deletions of topics.

Decisions and writes are those of :mod:`tallymark.coordination.replicas`, in the thread for
ZooKeeper. Where no replica surely has everything, brokers are asked in between where their logs
end, on the loop: no thread waits for them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from tallymark.broker.metadata.image import MetadataImage
from tallymark.broker.metadata.port import Membership, Targets
from tallymark.broker.metadata.shared_run import SharedRun
from tallymark.broker.metadata.zookeeper_view import NewTopic
from tallymark.coordination import ZooKeeper
from tallymark.coordination.replicas.electing import Elector
from tallymark.coordination.replicas.reassigning import Reassigner
from tallymark.errors import CODES, KafkaError, TallymarkError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.election import Elected, Kind

log: Final = logging.getLogger(__name__)
T = TypeVar("T")

DELETE_SECONDS: Final = 15.0
"""How long a deletion waits for the controller."""


class RunsThere(Protocol):
    """Runs a command in the thread for ZooKeeper."""

    def __call__(self, command: Callable[[], T], /) -> Awaitable[T]: ...


class TopicCreations:
    """Topics that are asked for while others are being created are created together: ``create``
    reads the cluster once for all of them, and returns the error of each."""

    def __init__(
        self,
        create: Callable[[Sequence[NewTopic]], Sequence[TallymarkError | None]],
        run: RunsThere,
    ) -> None:
        self._create = create
        self._run = run
        self._wanted: list[NewTopic] = []
        self._together = SharedRun(self._create_all)

    async def create(self, wanted: NewTopic) -> None:
        """Create the topic; raises its error."""
        self._wanted.append(wanted)
        for one, error in await self._together():
            if one is wanted and error is not None:
                raise error

    async def stop(self, seconds: float) -> None:
        """Wait for what is being created, at most so long."""
        await self._together.stop(seconds)

    async def _create_all(self) -> Sequence[tuple[NewTopic, TallymarkError | None]]:
        wanted, self._wanted = self._wanted, []
        return list(zip(wanted, await self._run(lambda: self._create(wanted)), strict=True))


async def elect_leaders(
    zookeeper: ZooKeeper,
    membership: Membership,
    kind: Kind,
    partitions: Sequence[TopicPartition],
    run: RunsThere,
    now_ms: Callable[[], int],
) -> Mapping[TopicPartition, KafkaError]:
    """See :meth:`~tallymark.broker.metadata.port.Cluster.elect_leaders`: decide, ask brokers where
    nothing else decides, decide again."""
    elector = Elector(zookeeper, now_ms, membership.defaults())
    first = await run(lambda: elector.elect(kind, partitions))
    if not first.ask:
        _report(first.done, membership)
        return first.failed
    tails = await membership.asker.tails(first.views, first.ask)
    second = await run(lambda: elector.elect(kind, list(first.ask), tails))
    _report({**first.done, **second.done}, membership)
    return {**first.failed, **second.failed}


def _report(done: Mapping[TopicPartition, Elected], membership: Membership) -> None:
    """To the log; an election that may have lost records is an error, and counted."""
    for key, elected in done.items():
        lossy = elected.state.is_elected_unclean
        log.log(
            logging.ERROR if lossy else logging.INFO,
            "%s asked for by an operator partition=%s-%d leader=%d epoch=%d: %s",
            "unclean election" if lossy else "election",
            *key,
            elected.state.leader,
            elected.state.leader_epoch,
            elected.why,
        )
        if lossy:
            membership.unclean(key)


async def reassign(
    zookeeper: ZooKeeper, targets: Targets, run: RunsThere, now_ms: Callable[[], int]
) -> Mapping[TopicPartition, KafkaError]:
    """See :meth:`~tallymark.broker.metadata.port.Cluster.reassign`; the image is not newer yet."""
    reassigner = Reassigner(zookeeper, now_ms)
    return await run(lambda: reassigner.move(targets))


async def delete_topics(
    names: Sequence[str],
    ask: Callable[[], Sequence[str]],
    run: RunsThere,
    refreshed: Callable[[], Awaitable[MetadataImage]],
) -> Mapping[str, KafkaError]:
    """See :meth:`~tallymark.broker.metadata.port.Cluster.delete_topics`. ``ask`` asks the
    controller, and returns the names that no topic has; ``refreshed`` returns an image of now.
    REQUEST_TIMED_OUT for topics that the controller has not deleted in time."""
    unknown = await run(ask)
    code, late = CODES["UNKNOWN_TOPIC_OR_PARTITION"], CODES["REQUEST_TIMED_OUT"]
    failed = {name: KafkaError(code, name) for name in unknown}
    asked, loop = set(names) - set(unknown), asyncio.get_running_loop()
    deadline = loop.time() + DELETE_SECONDS
    while left := asked & set((await refreshed()).topics):
        if loop.time() > deadline:
            return failed | {name: KafkaError(late, f"the deletion of {name}") for name in left}
        await asyncio.sleep(0.05)
    return failed


async def for_client(work: Awaitable[T]) -> T:
    """Without ZooKeeper the client gets a retriable error."""
    try:
        return await work
    except KafkaError:
        raise
    except TallymarkError as error:
        raise KafkaError(CODES["COORDINATOR_NOT_AVAILABLE"], str(error)) from error
