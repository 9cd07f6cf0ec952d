"""A clean stop hands over the leads of partitions with several replicas, before anything ends.

::

    /brokers/leaving/[id] ─▶ the controller elects others ─▶ images: leads end here
                                                             │
          the rest of the stop ◀── no lead is left that another broker could take, or time is up

Requests are answered meanwhile. What only this broker can lead is not waited for: the other members
of the ISR are gone, or leave, too. So the brokers of a cluster that are stopped all at once wait
for each other's notes, not for their whole time. Nothing is waited for without ZooKeeper.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

from tallymark.broker.metadata.image import MetadataImage
from tallymark.broker.replicas.leading import Leads
from tallymark.broker.yielding import in_turns
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.election import Elected, replaced
from tallymark.replication.model import Picture

log: Final = logging.getLogger(__name__)

LOOK_SECONDS: Final = 0.05
ASK_SECONDS: Final = 1.0
"""The note is written again so often: that of a session that was lost is gone."""


class Leaving(Protocol):
    """The part of :class:`~tallymark.broker.metadata.port.Cluster` that is needed here."""

    async def announce_leaving(self) -> bool: ...


async def hand_over(
    cluster: Leaving, leads: Leads, image: Callable[[], MetadataImage], seconds: float
) -> bool:
    """Ask the controller to move the ``leads`` of this broker, and wait until no other broker could
    take one of those that are left, ``seconds`` at most. ``image`` returns the image that was
    applied last. Whether the wait ended in time; False also where nothing can be asked for."""
    loop = asyncio.get_running_loop()
    began, count = loop.time(), len(leads)
    if not count:
        return True
    left: list[TopicPartition] = []
    try:
        async with asyncio.timeout(seconds):
            asked_at = None
            while left := await movable(leads, image()):
                if asked_at is None or loop.time() - asked_at >= ASK_SECONDS:
                    asked_at = loop.time()
                    if not await cluster.announce_leaving():
                        log.warning("leads are not handed over: ZooKeeper is out of reach")
                        return False
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        log.warning(
            "leads were not handed over in time count=%d first=%s-%d seconds=%g",
            len(left),
            *(left[0] if left else ("", -1)),
            seconds,
        )
        return False
    log.info(
        "leads handed over count=%d kept=%d seconds=%.2f",
        count - len(leads),
        len(leads),
        loop.time() - began,
    )
    return True


async def movable(leads: Leads, image: MetadataImage) -> list[TopicPartition]:
    """The partitions of ``leads`` that the controller can give to another broker: a member of the
    ISR that is up and stays."""
    picture, found = Picture(image.views, {}, 0), list[TopicPartition]()
    async for lead in in_turns(leads):
        name, index = lead.partition.topic, lead.partition.index
        topic = image.topics.get(name)
        if topic is None or index >= len(topic.partitions):
            continue
        view = replace(topic.view_of(index), state=lead.leader.state)  # its ISR is never older
        if isinstance(replaced(view, picture), Elected):
            found.append((name, index))
    return found
