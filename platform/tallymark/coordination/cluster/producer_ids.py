"""Blocks of producer ids: ``/producer_ids`` holds the last block given out.

``{"version":1,"broker":1,"block_start":"1000","block_end":"1999"}``. A broker takes a whole block
by compare-and-set before it uses the first id of it, so no id is given out twice, whichever process
crashes. The rest of a crashed broker's block is never used.
"""

from __future__ import annotations

from typing import Final

from tallymark.coordination import paths
from tallymark.coordination.session import documents
from tallymark.coordination.session.errors import (
    BadVersionError,
    MalformedNodeError,
    NodeExistsError,
)
from tallymark.coordination.session.nodes import Node
from tallymark.coordination.session.zookeeper import ZooKeeper

BLOCK_SIZE: Final = 1000
_LAST_ID: Final = 2**63 - 1


def next_block(zookeeper: ZooKeeper, broker_id: int, size: int = BLOCK_SIZE) -> range:
    """Take the next ``size`` producer ids for this broker alone."""
    while True:
        node = zookeeper.find(paths.PRODUCER_IDS)
        start = _after(node) if node else 0
        block = range(start, start + size)
        if block[-1] > _LAST_ID:
            raise MalformedNodeError(paths.PRODUCER_IDS, "all producer ids are used up")
        data = documents.dump(
            {
                "version": 1,
                "broker": broker_id,
                "block_start": str(block[0]),
                "block_end": str(block[-1]),
            }
        )
        try:
            if node is None:
                zookeeper.create(paths.PRODUCER_IDS, data, parents=True)
            else:
                zookeeper.write(paths.PRODUCER_IDS, data, node.version)
        except (NodeExistsError, BadVersionError):
            continue  # another broker was faster
        return block


def _after(node: Node) -> int:
    document = documents.load(paths.PRODUCER_IDS, node.data)
    end = documents.field(paths.PRODUCER_IDS, document, "block_end", str)
    if not end.isdecimal():
        raise MalformedNodeError(paths.PRODUCER_IDS, f"block_end {end!r} is no number")
    return int(end) + 1
