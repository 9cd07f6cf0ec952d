"""The story of the demo, step by step. Every step is a real command or a real fault.

The order matters for honesty: the reconciliation runs before the sealed truth is opened, and gets
nothing but the settings file.
"""

from __future__ import annotations

import itertools
import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from tallymark.clock import now_ms
from tallymark.deployment import Deployment
from tallymark.errors import UserError
from tallymark.processes.free_ports import is_taken
from tallymark.processes.supervisor.control import ask
from tallymark.processes.supervisor.run import control_file
from tallymark_audit.model.time_format import utc
from tallymark_audit.proof.demo import truth
from tallymark_audit.proof.demo.afterwards import LostWindow
from tallymark_audit.proof.demo.result import located, lost_windows, named_missing, total
from tallymark_audit.proof.demo.stack import (
    AGGREGATE,
    DATACENTERS,
    SETTLE_MS,
    WINDOW_MS,
    broker_folder,
)
from tallymark_audit.proof.demo.truth import Identity
from tallymark_audit.proof.harness import power_failure as fault
from tallymark_audit.proof.harness.commands import Command
from tallymark_audit.proof.harness.narrate import Narrator

PATIENCE_SECONDS = 180.0
"""For what takes seconds on a machine that does nothing else."""
LIVE_SECONDS = 12.0
AFTER_FAULT_SECONDS = 6.0
BROKER = f"broker-{AGGREGATE}-0"
COMPLETE, DISCREPANCIES = 0, 3


@dataclass
class Demo:
    """One run. ``input_file`` is published besides the live sources when given."""

    deployment: Deployment
    settings: Path
    narrator: Narrator
    chance: random.Random
    input_file: Path | None
    lost: list[LostWindow] = field(default_factory=list[LostWindow])
    """The windows in which Spark missed messages, before the repair."""
    _publishers: dict[str, Command] = field(default_factory=dict[str, Command])

    @property
    def logs(self) -> Path:
        return self.deployment.log_dir

    def run(self, with_fault: bool) -> None:
        """Everything up to the last verdict. Raises UserError at the first step that fails."""
        self._publish_live()
        self._publish_input()
        cut = self._fault() if with_fault else None
        until = self._let_settle()
        if cut is None:
            self._expect_complete(until, "no fault was made, and nothing may be found")
            return
        named = self._reconcile_and_name(until)
        self._compare(named, cut)
        self._repair()
        self._expect_complete(until, "every message is there again")

    # -- publishing -------------------------------------------------------------------------

    def _publish_live(self) -> None:
        with self.narrator.step("publishing live host metrics and the stack's own access logs", 14):
            logs = zip(DATACENTERS, ("registry-access", "dashboards-access"), strict=True)
            for cluster, log in logs:
                self._publish(cluster, "host_metrics", "--format", "metrics", "--interval", "0.05")
                access_log = self.logs / f"{log}.log"
                self._publish(
                    cluster, "http_access", "--format", "access-log", "--follow",
                    "--input", str(access_log),
                )  # fmt: skip
            for publisher in self._publishers.values():
                publisher.wait_for(partial(publisher.said, ": ready"), "start", PATIENCE_SECONDS)
            self._watch(LIVE_SECONDS)

    def _publish_input(self) -> None:
        if self.input_file is None:
            return
        with self.narrator.step(f"publishing {self.input_file} from both datacenters", 10):
            topic = f"input_{_topic_part(self.input_file)}"
            shards = [
                self._publish(
                    cluster, topic, "--input", str(self.input_file.absolute()), "--backfill",
                    "--shard", f"{number}/{len(DATACENTERS)}",
                )
                for number, cluster in enumerate(DATACENTERS)
            ]  # fmt: skip
            for shard in shards:
                code = shard.wait(90)
                if code not in (0, 2):
                    raise shard.fail(f"failed (exit {code})")
                del self._publishers[shard.name]
                self.narrator.say(f"{shard.name}: {_last(shard.log)}")

    def _publish(self, cluster: str, topic: str, *arguments: str) -> Command:
        name = f"publish-{cluster}-{topic}"
        command = Command(
            name,
            ["publish", topic, "--cluster", cluster, *arguments],
            self.settings,
            self.logs,
        )
        self._publishers[name] = command
        return command

    def _watch(self, seconds: float) -> None:
        """Let time pass while every publisher has to stay alive."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for publisher in self._publishers.values():
                publisher.check()
            time.sleep(0.2)

    def stop_publishers(self) -> None:
        """Publishers flush, report and end."""
        for publisher in self._publishers.values():
            publisher.stop()

    # -- the fault --------------------------------------------------------------------------

    def _fault(self) -> fault.Cut:
        with self.narrator.step("the aggregate's machine loses its power", 10):
            tails: list[fault.UnflushedTail] = []
            while not tails:  # a flush may come between the look and the kill: then once more
                self._control("release", BROKER)
                self._wait_for(self._something_to_lose, f"nothing arrives on {BROKER}")
                self._control("hold", BROKER)
                self._control("kill", BROKER)
                self._wait_for(self._is_dead, f"{BROKER} does not die")
                tails = fault.unflushed_tails(broker_folder(self.deployment))
            cut = fault.cut_tail(self.chance.choice(tails), self.chance)
            truth.seal(cut, self._seal_path)
            tail = cut.tail
            self.narrator.say(
                f"killed {BROKER}; of {tail.size:,} unflushed bytes of {tail.topic}-"
                f"{tail.partition} in {tail.segment.name} everything after byte "
                f"{cut.position:,} is gone; what it was is sealed"
            )
            self._control("release", BROKER)
            self._wait_for(
                lambda: self._broker()["state"] == "ready", f"{BROKER} does not start again"
            )
            self.narrator.say("the broker has recovered its log; the mirrors go on")
            self._watch(AFTER_FAULT_SECONDS)
            return cut

    def _something_to_lose(self) -> bool:
        return bool(fault.unflushed_tails(broker_folder(self.deployment)))

    @property
    def _seal_path(self) -> Path:
        return self.deployment.data_dir / "sealed" / "cut-off"

    def _control(self, do: str, name: str) -> Mapping[str, Any]:
        return ask(control_file(self.deployment), {"do": do, "name": name})

    def _broker(self) -> dict[str, Any]:
        processes = ask(control_file(self.deployment), {"do": "status"})["processes"]
        found: dict[str, Any] = next(one for one in processes if one["name"] == BROKER)
        return found

    def _is_dead(self) -> bool:
        """Its process is gone, and so are its children: no process writes to its files."""
        (address,) = self.deployment.cluster(AGGREGATE).brokers
        return self._broker()["pid"] is None and not is_taken(address.host, address.port)

    def _wait_for(self, holds: Callable[[], bool], otherwise: str) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            if time.monotonic() > end:
                raise UserError(otherwise, f"see the logs in {self.logs}")
            time.sleep(0.1)

    # -- verdicts ---------------------------------------------------------------------------

    def _let_settle(self) -> int:
        with self.narrator.step("letting the windows settle", 8):
            now = now_ms()
            until = now - now % WINDOW_MS
            wait_ms = until + SETTLE_MS + 3_000 - now
            self.narrator.say(f"judged will be everything before {utc(until)}")
            self._watch(max(0, wait_ms) / 1000)
            return until

    def _reconcile(self, until: int, expected: int) -> dict[str, Any]:
        name = f"reconcile-{time.monotonic_ns()}"
        result = self.deployment.data_dir / f"{name}.json"
        arguments = ["--from", "1970-01-01", "--to", utc(until), "--json", str(result)]
        job = Command(name, ["reconcile", "--wait", "30", *arguments], self.settings, self.logs)
        code = job.wait(600)  # with all cores taken by others
        self.narrator.console.print(job.log.read_text(encoding="utf-8").rstrip(), highlight=False)
        if code != expected:
            raise job.fail(f"ended with exit {code}, not {expected}")
        content: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
        return content

    def _reconcile_and_name(self, until: int) -> set[Identity]:
        title = "Spark counts the data of all three clusters by itself; it was told nothing"
        with self.narrator.step(title, 25):
            result = self._reconcile(until, DISCREPANCIES)
            named = named_missing(result, AGGREGATE)
            self.lost = lost_windows(result)
            if located(result) != len(named):
                raise UserError(
                    f"of {len(named)} missing messages only {located(result)} were found upstream"
                )
            return named

    def _compare(self, named: set[Identity], cut: fault.Cut) -> None:
        with self.narrator.step("opening the seal: was exactly that cut off?"):
            taken = truth.open_seal(self._seal_path, cut.tail.topic)
            address = self.deployment.cluster(AGGREGATE).bootstrap_servers
            lost = truth.still_missing(taken, address, cut.tail.topic, cut.tail.partition)
            again = len(taken) - len(lost)
            self.narrator.say(
                f"cut off: {len(taken)} messages; {again} of them had not been acknowledged and "
                f"were sent again; lost: {len(lost)}; named by Spark: {len(named)}"
            )
            if named != lost:
                raise UserError(
                    f"the verdict is wrong: {len(lost - named)} lost messages were not named, "
                    f"{len(named - lost)} named ones were not lost",
                    f"the sealed bytes are in {self._seal_path}",
                )
            self.narrator.say("[green]identities are equal, one by one[/]")

    def _repair(self) -> None:
        with self.narrator.step("repairing: copying exactly those from upstream", 2):
            repair = Command("repair", ["audit", "repair", "--apply"], self.settings, self.logs)
            code = repair.wait(PATIENCE_SECONDS)
            text = repair.log.read_text(encoding="utf-8").rstrip()
            self.narrator.console.print(text, highlight=False)
            if code != 0:
                raise repair.fail(f"failed (exit {code})")

    def _expect_complete(self, until: int, title: str) -> None:
        with self.narrator.step(f"Spark counts again: {title}", 20):
            result = self._reconcile(until, COMPLETE)
            wrong = {name: total(result, name) for name in ("missing", "duplicated", "unclaimed")}
            if any(wrong.values()):
                raise UserError(f"the reconciliation still finds {wrong}")
            self.narrator.say(f"[green]COMPLETE[/]: {total(result, 'claimed'):,} claims hold")


@contextmanager
def running_stack(demo: Demo) -> Iterator[Command]:
    """The stack, up and serving, and a visitor of its pages; stopped afterwards."""
    deployment = demo.deployment
    with ExitStack() as stack:
        with demo.narrator.step(
            "starting the stack: ZooKeeper, brokers, mirrors, collectors ...", 8
        ):
            up = Command("up", ["up", "--settings", demo.settings], demo.settings, demo.logs)
            stack.callback(up.stop)
            up.wait_for(lambda: up.said("The stack is up"), "start", 90)
            demo.narrator.say(f"dashboards: {deployment.dashboards.url}")
        pages = ["", "healthz", "api/v1/audit/overview", "openapi.json"]
        registry = ["subjects", "schemas/types", "config"]
        visitor = Visitor(
            [f"{deployment.dashboards.url}/{page}" for page in pages]
            + [f"{deployment.registry.url}/{page}" for page in registry]
        )
        stack.callback(demo.stop_publishers)
        stack.callback(visitor.close)
        yield up


def _topic_part(path: Path) -> str:
    return "".join(char if char.isalnum() else "_" for char in path.stem.lower())[:100]


def _last(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "(no output)"


class Visitor:
    """Gets the pages in turn, a few times a second, until closed, so that the HTTP access logs have
    lines to publish. A page that is not there yet is visited again."""

    def __init__(self, addresses: Sequence[str], pause_s: float = 0.15) -> None:
        self._addresses = addresses
        self._pause_s = pause_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._visit, name="visitor", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, and wait for the visit in progress."""
        self._stopped.set()
        self._thread.join(10)

    def _visit(self) -> None:
        with httpx.Client(timeout=3.0, headers={"user-agent": "tallymark-demo"}) as client:
            for address in itertools.cycle(self._addresses):
                if self._stopped.wait(self._pause_s):
                    return
                try:
                    client.get(address)
                except httpx.HTTPError:
                    continue
