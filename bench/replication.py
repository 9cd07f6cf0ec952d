"""Three brokers whose topics have three replicas: ours, and Apache Kafka's three in the same run.

    python bench/replication.py [--quick] [--against-kafka | --against-tree FOLDER]
                                [--only produce,idle,catch-up] [--works TEXT]
                                [--one-replica] [--rounds N] [--seconds S] [--json FILE]

acks=all, min.insync.replicas=2, one partition, one producer; each work for some seconds, the
clusters in turn. On a shared machine compare messages per CPU-second, which are of the three
brokers together (ZooKeeper, which is not asked while nothing changes, is not counted; Apache
Kafka's controllers are threads of its brokers). ``--one-replica``: our three brokers also with
topics of one, to see what copying costs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from support.apache_kafka import apache_kafka_cluster
from support.measure import machine, medians, table, warm_page_cache
from support.replicated import cluster
from support.replication.clusters import REPLICAS, Cluster
from support.replication.work import WORKS, Found, Work, catch_up, idle, produce, warm_up

from tallymark.processes.apache_kafka import NotAvailableError

PARTS: Final = ("produce", "idle", "catch-up")
OURS: Final = "tallymark"
KAFKA: Final = "kafka"
_GB: Final = 1024**3
_SESSION_MS: Final = 18_000
"""On a busy machine no broker is taken for dead while it only waits for a processor."""


class Size(NamedTuple):
    """How much is done. Seconds are of one run of one work, and of idling."""

    rounds: int
    seconds: float
    idle_seconds: float
    partitions: int
    megabytes: int


QUICK: Final = Size(1, 4, 8, 1000, 200)
FULL: Final = Size(3, 10, 60, 1000, 1000)


class Contender(NamedTuple):
    """Who takes a turn: ``name`` of the cluster, replicas of its topics."""

    name: str
    replicas: int


def main() -> None:
    args = _arguments()
    size = QUICK if args.quick else FULL
    size = size._replace(rounds=args.rounds or size.rounds, seconds=args.seconds or size.seconds)
    with ExitStack() as stack:
        folder = tempfile.TemporaryDirectory(dir=args.folder, prefix="tallymark-bench-")
        scratch = Path(stack.enter_context(folder))
        warm_page_cache(scratch, _GB)
        clusters = _started(stack, scratch, args.against_kafka, args.against_tree)
        measured = _measure(clusters, size, args.only, _works(args.works), args.one_replica)
    facts = {**machine(), **size._asdict()}
    print(json.dumps(facts))
    for rows in _tables(measured):
        print("\n" + table(rows))
    if args.json:
        args.json.write_text(json.dumps({"machine": facts, **measured}, indent=1) + "\n")


def _arguments() -> Any:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="less work, one round: 3 minutes")
    beside = parser.add_mutually_exclusive_group()
    beside.add_argument("--against-kafka", action="store_true", help="Apache Kafka as well")
    beside.add_argument("--against-tree", type=Path, help="ours of another working tree as well")
    parser.add_argument("--works", default="", help="those with this text in their names")
    parser.add_argument("--one-replica", action="store_true", help="ours with one replica, too")
    parser.add_argument("--only", type=_parts, default=PARTS, help=",".join(PARTS))
    parser.add_argument("--rounds", type=int, default=0, help="1 with --quick, else 3")
    parser.add_argument("--seconds", type=float, default=0, help="of a run: 4 or 10")
    parser.add_argument("--folder", type=Path, help="where data is written")
    parser.add_argument("--json", type=Path, help="write the numbers there")
    return parser.parse_args()


def _parts(text: str) -> tuple[str, ...]:
    found = tuple(text.split(","))
    if strange := set(found).difference(PARTS):
        raise argparse.ArgumentTypeError(f"there is no {strange.pop()!r}")
    return found


def _started(
    stack: ExitStack, folder: Path, with_kafka: bool, tree: Path | None
) -> dict[str, Cluster]:
    _tell("starting three of our brokers")
    clusters: dict[str, Cluster] = {
        OURS: stack.enter_context(cluster(folder / "own", session_ms=_SESSION_MS))
    }
    if tree is not None:
        other = cluster(folder / "other", session_ms=_SESSION_MS, tree=tree)
        clusters[tree.name] = stack.enter_context(other)
    if with_kafka:
        _tell("starting three of Apache Kafka")
        try:
            clusters[KAFKA] = stack.enter_context(apache_kafka_cluster(folder / "kafka"))
        except NotAvailableError as error:
            _tell(f"without Apache Kafka: {error}")
    return clusters


def _works(text: str) -> tuple[Work, ...]:
    return tuple(work for work in WORKS if text in work.name)


def _measure(
    clusters: Mapping[str, Cluster],
    size: Size,
    parts: tuple[str, ...],
    works: tuple[Work, ...],
    one_replica: bool,
) -> dict[str, Any]:
    """What was found, by part: of producing, the medians by work and "name, replicas"."""
    measured: dict[str, Any] = {}
    contenders = [Contender(name, REPLICAS) for name in clusters]
    if one_replica:
        contenders.append(Contender(OURS, 1))
    if "produce" in parts:
        for name, cluster in clusters.items():
            _tell(f"warming up {name}")
            warm_up(cluster, size.seconds)
        measured["produce"] = _produced(clusters, contenders, works, size)
    if "catch-up" in parts:
        _tell(f"an empty replica of {size.megabytes} MB")
        measured["catch-up"] = {
            name: catch_up(each, size.megabytes) for name, each in clusters.items()
        }
    if "idle" in parts:
        _tell(f"idling with {size.partitions} partitions")
        measured["idle"] = idle(clusters, size.partitions, size.idle_seconds)
    return measured


def _produced(
    clusters: Mapping[str, Cluster],
    contenders: list[Contender],
    works: tuple[Work, ...],
    size: Size,
) -> dict[str, dict[str, Found]]:
    runs: dict[str, dict[str, list[Found]]] = {}
    for number in range(1, size.rounds + 1):
        for work in works:
            for name, replicas in contenders[:: -1 if number % 2 else 1]:
                _tell(f"round {number} of {size.rounds}: {work.name}, {name}, {replicas} replicas")
                found = produce(clusters[name], work, size.seconds, replicas)
                label = name if replicas == REPLICAS else f"{name}, one replica"
                runs.setdefault(work.name, {}).setdefault(label, []).append(found)
    return {
        work: {name: medians(each) for name, each in by_name.items()}
        for work, by_name in runs.items()
    }


def _tell(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _tables(measured: Mapping[str, Any]) -> list[list[tuple[str, ...]]]:
    tables: list[list[tuple[str, ...]]] = []
    if "produce" in measured:
        heading = ("acks=all", "brokers", "msg/CPU-s", "ratio", "msg/s", "MB/s", "cores", "p50/p99")
        rows: list[tuple[str, ...]] = [heading]
        for work, by_name in measured["produce"].items():
            others = [each for name, each in by_name.items() if not name.startswith(OURS)]
            rows += [
                (work, name, *_row(found, others[-1:])) for name, found in sorted(by_name.items())
            ]
        tables.append(rows)
    if "catch-up" in measured:
        rows = [("an empty replica", "MB", "MB/s", "MB/CPU-s")]
        for name, found in measured["catch-up"].items():
            rates = (found["mb"] / found[key] for key in ("seconds", "cpu_seconds"))
            rows.append((name, f"{found['mb']:,.0f}", *(f"{rate:,.0f}" for rate in rates)))
        tables.append(rows)
    if "idle" in measured:
        rows = [("idle, 3 replicas of each", "a broker, % of a core", "the greatest")]
        for name, found in measured["idle"].items():
            rows.append((name, f"{found['mean']:.1%}", f"{found['greatest']:.1%}"))
        tables.append(rows)
    return tables


def _row(found: Found, others: list[Found]) -> tuple[str, ...]:
    per_cpu = _per_cpu(found)
    ratio = "".join(f"{per_cpu / _per_cpu(each):.2f}" for each in others if each is not found)
    return (
        f"{per_cpu:,.0f}",
        ratio,
        f"{found['messages'] / found['seconds']:,.0f}",
        f"{found['bytes'] / found['seconds'] / 1e6:.1f}",
        f"{found['cpu_seconds'] / found['seconds']:.2f}",
        f"{found['p50_ms']:.1f}/{found['p99_ms']:.1f} ms" if "p50_ms" in found else "",
    )


def _per_cpu(found: Found) -> float:
    return found["messages"] / max(found["cpu_seconds"], 0.01)


if __name__ == "__main__":
    main()
