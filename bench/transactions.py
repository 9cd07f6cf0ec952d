"""What transactions cost, at one broker and at three: ours, and Apache Kafka's in the same run.

    python bench/transactions.py [--quick] [--against-kafka] [--replicas 1|3]
                                 [--only produce,small,copy,read,aborted,million,load]
                                 [--seconds S] [--folder DIR] [--json FILE]

``produce``: 1,000 B idempotent, and in transactions committed every 100 ms; each topic is deleted
when it is measured. ``small``: begin, one record, commit. ``copy``: consume-transform-produce of
750 messages a transaction. ``read``: what is committed, read as committed and as uncommitted.
``aborted``: fetches behind many aborted transactions; ``million`` the same with a million, and
``load`` a coordinator that starts with many ids (these two ours alone). From ``read`` on with one
replica only. On a shared machine compare the ratios of a run, and messages per CPU-second.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from support.apache_kafka import apache_kafka, apache_kafka_cluster
from support.measure import Running, cpu_seconds, machine, table
from support.own_broker import OwnBroker
from support.replicated import cluster
from support.replication.clusters import Cluster
from support.transactions import work
from support.transactions.many_aborts import fetches_behind_many
from support.transactions.many_ids import load
from support.transactions.work import Found, Place

from tallymark.client import Admin
from tallymark.client.reading.isolation import Isolation

PARTS: Final = ("produce", "small", "copy", "read", "aborted", "million", "load")
OURS: Final = "tallymark"
KAFKA: Final = "kafka"
ISOLATIONS: Final[tuple[Isolation, ...]] = ("read_uncommitted", "read_committed")
_COMMIT_SECONDS: Final = 0.1


class Size(NamedTuple):
    """How much is done. Seconds are of one run of one work."""

    seconds: float
    copied: int
    read: int
    aborted: tuple[int, ...]
    million: int
    fetches: int
    ids: int


QUICK: Final = Size(4, 15_000, 30_000, (0, 500, 2_000), 50_000, 200, 20_000)
FULL: Final = Size(15, 100_000, 100_000, (0, 1_000, 10_000), 1_000_000, 1_000, 100_000)


class OneBroker:
    """See :class:`support.transactions.work.Place`; so with the next one."""

    def __init__(self, broker: Running) -> None:
        self._broker = broker
        self.bootstrap_servers = broker.bootstrap_servers

    def cpu(self) -> float:
        return cpu_seconds(self._broker.pid)


class ThreeBrokers:
    def __init__(self, brokers: Cluster) -> None:
        self._cluster = brokers
        self.bootstrap_servers = brokers.bootstrap_servers

    def cpu(self) -> float:
        return sum(cpu_seconds(broker.pid) for broker in self._cluster.brokers.values())


def main() -> None:
    args = _arguments()
    size = QUICK if args.quick else FULL
    size = size._replace(seconds=args.seconds or size.seconds)
    measured: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="tallymark-bench-") as folder:
        scratch = Path(folder)
        for replicas in args.replicas if set(args.only) - {"million", "load"} else ():
            with ExitStack() as stack:
                places = _started(stack, scratch / str(replicas), replicas, args.against_kafka)
                measured[str(replicas)] = _measure(places, replicas, size, args.only)
        if "million" in args.only:
            _tell(f"a log with {size.million:,} aborted transactions")
            measured["million"] = fetches_behind_many(scratch / "m", size.million, size.fetches)
        if "load" in args.only:
            _tell(f"a coordinator with {size.ids:,} ids")
            measured["load"] = load(scratch / "load", size.ids)
    facts = {**machine(), **size._asdict()}
    print(json.dumps(facts))
    print("\n" + table(_rows(measured)))
    if args.json:
        args.json.write_text(json.dumps({"machine": facts, **measured}, indent=1) + "\n")


def _arguments() -> Any:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="less work: 3 minutes")
    parser.add_argument("--against-kafka", action="store_true", help="Apache Kafka as well")
    parser.add_argument("--replicas", type=int, action="append", choices=(1, 3), help="both")
    parser.add_argument("--only", type=_parts, default=PARTS, help=",".join(PARTS))
    parser.add_argument("--seconds", type=float, default=0, help="of a run: 4 or 15")
    parser.add_argument("--folder", type=Path, help="where data is written")
    parser.add_argument("--json", type=Path, help="write the numbers there")
    args = parser.parse_args()
    args.replicas = args.replicas or [1, 3]
    return args


def _parts(text: str) -> tuple[str, ...]:
    found = tuple(text.split(","))
    if strange := set(found).difference(PARTS):
        raise argparse.ArgumentTypeError(f"there is no {strange.pop()!r}")
    return found


def _started(stack: ExitStack, folder: Path, replicas: int, with_kafka: bool) -> dict[str, Place]:
    _tell(f"starting brokers for {replicas} replicas")
    places: dict[str, Place] = {}
    if replicas == 1:
        places[OURS] = OneBroker(stack.enter_context(OwnBroker(folder / "own")))
        if with_kafka:
            places[KAFKA] = OneBroker(stack.enter_context(apache_kafka(folder / "kafka")))
        return places
    folder.mkdir(parents=True)
    own = stack.enter_context(cluster(folder / "own", session_ms=18_000))
    with Admin(bootstrap_servers=own.bootstrap_servers) as admin:
        admin.update_features({"transaction.version": 2})
    places[OURS] = ThreeBrokers(own)
    if with_kafka:
        places[KAFKA] = ThreeBrokers(stack.enter_context(apache_kafka_cluster(folder / "kafka")))
    return places


def _measure(
    places: Mapping[str, Place], replicas: int, size: Size, parts: tuple[str, ...]
) -> dict[str, dict[str, Found]]:
    """Work -> who -> what was found."""
    works: dict[str, Callable[[Place], Found]] = {}
    if "produce" in parts:
        works["idempotent, 1,000 B"] = lambda p: work.produce(p, replicas, size.seconds, None)
        works["commits every 100 ms, 1,000 B"] = lambda p: work.produce(
            p, replicas, size.seconds, _COMMIT_SECONDS
        )
    if "small" in parts:
        works["begin, one record, commit"] = lambda p: work.small_transactions(
            p, replicas, size.seconds
        )
    if "copy" in parts:
        works["copy, 750 a transaction"] = lambda p: work.copy(p, replicas, size.copied)
    found: dict[str, dict[str, Found]] = {}
    if works:
        for name, place in places.items():
            _tell(f"warming up {name}")
            work.produce(place, replicas, size.seconds / 2, _COMMIT_SECONDS)
            work.small_transactions(place, replicas, size.seconds)
    for title, do in works.items():
        for name, place in places.items():
            _tell(f"{title}, {replicas} replicas, {name}")
            found.setdefault(title, {})[name] = do(place)
    if replicas == 1:
        for name, place in places.items():
            _tell(f"reading, {name}")
            for title, one in _read(place, size, parts).items():
                found.setdefault(title, {})[name] = one
    return found


def _read(place: Place, size: Size, parts: tuple[str, ...]) -> dict[str, Found]:
    """Work -> what was found."""
    found: dict[str, Found] = {}
    if "read" in parts:
        topic = work.committed_topic(place, size.read)
        work.read(place, topic, "read_uncommitted", 1)
        for isolation in ISOLATIONS:
            found[f"{isolation}, 1,000 B"] = work.read(place, topic, isolation, 5)
    if "aborted" in parts:
        behind = work.fetches_behind_aborts(place, list(size.aborted), size.fetches)
        for count, one in behind.items():
            found[f"a fetch behind {count:,} aborted"] = one
    return found


def _rows(measured: Mapping[str, Any]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        ("work", "replicas", "brokers", "msg/s", "msg/CPU-s", "p50/p99 ms", "of Kafka's msg/s")
    ]
    for replicas, works in measured.items():
        if replicas == "load":
            text = f"+{works['cpu_seconds']:.1f} CPU-s, +{works['mb']:.0f} MB"
            text += f", loop held {works['hold_ms']:.0f} ms ({works['hold_cpu_ms']:.0f} of CPU)"
            rows.append((f"start with {works['ids']:,} ids", "1", OURS, "", text, "", ""))
            continue
        if replicas == "million":
            for count, found in works.items():
                times = f"{found['p50_ms']:.1f}/{found['p99_ms']:.1f}"
                text = f"{found['cpu_ms']:.2f} CPU-ms, {found['mb']:.0f} MB"
                title = f"a fetch behind {count:,} aborted, from the log"
                rows.append((title, "1", OURS, "", text, times, ""))
            continue
        for title, by_name in works.items():
            for name, found in by_name.items():
                rows.append((title, replicas, name, *_cells(found, by_name.get(KAFKA))))
    return rows


def _cells(found: Found, kafka: Found | None) -> tuple[str, ...]:
    times = f"{found['p50_ms']:.1f}/{found['p99_ms']:.1f}" if "p50_ms" in found else ""
    if "messages" not in found:
        return ("", "", times, "")
    rate = found["messages"] / found["seconds"]
    ratio = ""
    if kafka is not None and kafka is not found:
        ratio = f"{rate / (kafka['messages'] / kafka['seconds']):.2f}"
    return (f"{rate:,.0f}", f"{found['messages'] / found['cpu_seconds']:,.0f}", times, ratio)


def _tell(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
