"""The tables of the Kafka paper's section 5: ten million messages of 200 bytes through one broker.

The brokers are Tallymark, Apache Kafka, ActiveMQ, RabbitMQ and NATS JetStream.

    python bench/paper.py [--messages N] [--python-messages N] [--only tallymark,rabbitmq]
                          [--languages java,python] [--single-share 0.2] [--warm N]
                          [--charts FOLDER] [--json FILE]

`make paper` installs the other brokers and clients first. One producer, then one consumer, with
each product's Java client and with its Python client (a tenth of the messages, as these are
slower). The products take turns. Each run has a new broker, and ends with an error unless the
consumer got all messages that were sent, and no other one. A product that is not available is left
out, with a line that says why.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from support.measure import machine
from support.paper.chart import line_chart, rates
from support.paper.java_client import java_command
from support.paper.runs import PRODUCTS, SIZE, CountError, Measured, Run, measure, planned
from support.paper.tables import tables

from tallymark.errors import UserError

_ALL: Final = ",".join(each.key for each in PRODUCTS)
_PAPER: Final = 10_000_000
_TITLES: Final = {"produce": "One producer", "consume": "One consumer"}


def run_all(runs: Sequence[Run], java: list[str], warm: int, folder: Path | None) -> list[Measured]:
    """The measures of all runs. A product that fails is left out from then on, and named."""
    found: list[Measured] = []
    without: set[tuple[str, str]] = set()
    for run in runs:
        key = (run.product.key, run.language)
        if key in without or (run.language == "java" and not java):
            continue
        batch = f", batch {run.batch}" if run.batch else ""
        began = time.monotonic()
        with tempfile.TemporaryDirectory(dir=folder, prefix="tallymark-paper-") as name:
            try:
                found += measure(run, Path(name) / "broker", java, warm)
            except CountError:
                raise
            except (UserError, RuntimeError) as error:
                without.add(key)
                print(f"without {run.product.name}, {run.client}: {error}", flush=True)
                continue
        took = time.monotonic() - began
        print(f"{run.product.name}, {run.client}{batch}: {took:.0f} s", file=sys.stderr, flush=True)
    return found


def charts(found: Sequence[Measured]) -> dict[str, str]:
    """The charts by file name: rates of the Java clients, as in the paper's figures 4 and 5."""
    made = {}
    names = [each.name for each in PRODUCTS]
    # The chart has colours in this order.
    ordered = sorted(found, key=lambda each: (names.index(each.product), -each.batch))
    for job, title in _TITLES.items():
        lines = {
            f"{each.product}{f', batch {each.batch}' if each.batch else ''}": rates(
                each.marks, each.messages, SIZE
            )
            for each in ordered
            if each.job == job and each.language == "java"
        }
        title = f"{title}, messages of {SIZE} bytes"
        made[f"paper-{job}.svg"] = line_chart(title, "MB", "messages/s", lines)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--messages", type=int, default=_PAPER, help="through each Java client")
    parser.add_argument("--python-messages", type=int, help="default: a tenth of --messages")
    parser.add_argument(
        "--single-share", type=float, default=1.0, help="of the messages, in batches of one"
    )
    parser.add_argument("--only", default=_ALL, help=f"some of {_ALL}")
    parser.add_argument("--languages", default="java,python", help="some of java,python")
    parser.add_argument("--warm", type=int, default=20_000, help="messages before each run")
    parser.add_argument("--folder", type=Path, help="where brokers write their data")
    parser.add_argument("--charts", type=Path, help="write two SVG files into this folder")
    parser.add_argument("--json", type=Path, help="write the numbers there")
    args = parser.parse_args()
    counts = {"java": args.messages, "python": args.python_messages or args.messages // 10}
    counts = {name: counts[name] for name in args.languages.split(",")}
    products = tuple(each for each in PRODUCTS if each.key in args.only.split(","))
    try:
        java = java_command()
    except UserError as error:
        java = []
        print(f"without the Java clients: {error}")
    found = run_all(
        list(planned(products, counts, args.single_share)), java, args.warm, args.folder
    )
    facts = {**machine(), "size": SIZE, "warm": args.warm}
    print(f"{json.dumps(facts)}\n{tables(found)}")
    if args.charts:
        for name, text in charts(found).items():
            (args.charts / name).write_text(text, encoding="utf-8")
    if args.json:
        results = [asdict(each) for each in found]
        args.json.write_text(json.dumps({"machine": facts, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
