"""The edges over time: which hops there were, and since when each carries a topic.

A row of ``graph`` holds all edges as the settings had them from ``valid_from`` (ms) on::

    [{"name", "kind", "upstream", "downstream", "topics", "implied", "mirror": {...} or null}, ...]

The first row is valid from 0: nothing else is known of the time before. Verdicts of removed edges
stay. Windows that ended before an edge was added, or before it passed the topic under its present
name, are not judged: the edge did not have to carry them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from tallymark.deployment import Mirror
from tallymark.errors import TallymarkError
from tallymark_audit.model.cells import Edge
from tallymark_audit.model.edges import passes
from tallymark_audit.store.schema.tables import graph


@dataclass(frozen=True, slots=True)
class KnownEdge:
    """An edge that there is or was. Times in ms; ``until`` is None while there is one."""

    edge: Edge
    since: int
    until: int | None = None


@dataclass(frozen=True, slots=True)
class History:
    """All graphs there were, oldest first: since when (ms), and the edges by name."""

    graphs: tuple[tuple[int, dict[str, Edge]], ...] = ()

    def owed_from(self, edge: Edge, topic: str) -> int:
        """Since when (ms) the edge has passed the topic under the name it now has, without a
        break; 0: as long as anything is known."""
        since = 0
        for valid_from, edges in reversed(self.graphs):
            then = edges.get(edge.name)
            if then is None or not _same_way(then, edge, topic):
                break
            since = valid_from
        return since


def note_edges(connection: Connection, edges: Iterable[Edge], now_ms: int) -> bool:
    """Write down the edges where they differ from the last ones known. Whether they did."""
    told = [to_json(edge) for edge in edges]
    query = select(graph.c.edges).order_by(graph.c.id.desc()).limit(1)
    last = connection.execute(query).scalar()
    if last == told:
        return False
    connection.execute(graph.insert().values(valid_from=0 if last is None else now_ms, edges=told))
    return True


def history(connection: Connection) -> History:
    """Every graph there was."""
    query = select(graph.c.valid_from, graph.c.edges).order_by(graph.c.id)
    return History(
        tuple(
            (since, named)
            for since, edges in connection.execute(query)
            if (named := _named(edges)) or edges == []
        )
    )


def known_edges(connection: Connection) -> list[KnownEdge]:
    """Every edge there is or was, as it was last: those there are first."""
    present: dict[str, KnownEdge] = {}
    former: dict[str, KnownEdge] = {}
    for since, edges in history(connection).graphs:
        for name, edge in edges.items():
            known = present.get(name)
            present[name] = KnownEdge(edge, known.since if known else since)
            former.pop(name, None)
        for name in present.keys() - edges.keys():
            gone = present.pop(name)
            former[name] = KnownEdge(gone.edge, gone.since, since)
    return [*present.values(), *former.values()]


def to_json(edge: Edge) -> dict[str, Any]:
    """The edge as a row keeps it."""
    return {
        "name": edge.name,
        "kind": edge.kind,
        "upstream": edge.upstream,
        "downstream": edge.downstream,
        "topics": edge.topics,
        "implied": edge.implied,
        "mirror": _rules(edge.mirror) if edge.mirror else None,
    }


def from_json(raw: dict[str, Any]) -> Edge:
    """The inverse of :func:`to_json`, as far as it decides what an edge carries."""
    mirror = Mirror(**raw["mirror"]) if raw["mirror"] else None
    fields: dict[str, Any] = {**raw, "mirror": mirror}
    return Edge(**fields)


def _named(edges: Any) -> dict[str, Edge]:
    """By name, those that make sense: the others are as if they had not been written."""
    found: dict[str, Edge] = {}
    for raw in edges if isinstance(edges, list) else ():
        try:
            edge = from_json(raw)
        except (KeyError, TypeError, ValueError, TallymarkError):
            continue
        found[edge.name] = edge
    return found


_RULES: Sequence[str] = ("source", "target", "topics", "exclude", "rename", "renames", "isolation")
"""What of a mirror decides which messages it owes; how fast it is does not."""


def _rules(mirror: Mirror) -> dict[str, Any]:
    return {name: getattr(mirror, name) for name in _RULES}


def _same_way(then: Edge, now: Edge, topic: str) -> bool:
    return passes(then, topic) and then.downstream_topic(topic) == now.downstream_topic(topic)
