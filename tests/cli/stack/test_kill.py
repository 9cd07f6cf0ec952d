"""Any process of the stack may be killed at any moment: it comes back, nothing that was
acknowledged is lost, and every verdict says exactly what is in the logs."""

import json
import time
from collections import Counter
from typing import Any

import log_oracle
import pytest
from eventually import eventually
from log_oracle import Contents
from running_stack import WINDOW_MS, Stack
from sqlalchemy import select

from tallymark.processes.supervisor.plan import plan
from tallymark_audit.judge.verdicts import UNDECIDED
from tallymark_audit.store import open_store
from tallymark_audit.store.schema.tables import verdicts

pytestmark = [
    pytest.mark.process,
    pytest.mark.spark,
    pytest.mark.soak,  # over a minute; in `make test` the drill kills a collector of a whole stack
    pytest.mark.timeout(1800),
]
TOPIC = "orders"
PATIENCE = 120.0
"""Seconds, on a machine that has much else to do."""


def test_kill_each_process_in_turn(stack: Stack) -> None:
    first = stack.publisher("dc1", TOPIC, "a")
    stack.publisher("dc2", TOPIC, "b")
    eventually(
        lambda: bool(stack.acked("a") and stack.acked("b")), seconds=PATIENCE, what="both publish"
    )
    for spec in plan(stack.deployment):
        stack.kill(spec.name, PATIENCE)
        time.sleep(1)
    eventually(lambda: len(stack.acked("a")) > 500, seconds=PATIENCE, what="enough is published")
    first.kill()
    first.wait()
    stack.publisher("dc1", TOPIC, "c")
    eventually(
        lambda: len(stack.acked("c")) > 100,
        seconds=PATIENCE,
        what="the host's next publisher publishes",
    )
    stack.stop_publishers()

    published = {"dc1": stack.acked("a") | stack.acked("c"), "dc2": stack.acked("b")}
    contents = {name: read(stack, name) for name in published}
    for cluster, acked in published.items():
        assert acked - contents[cluster].values == set(), "acknowledged, but not in the log"
    # How long the mirrors take is the machine's business; that nothing stays behind is theirs.
    sent = contents["dc1"].values | contents["dc2"].values
    eventually(
        lambda: sent <= read(stack, "aggregate").values, seconds=PATIENCE, what="all is mirrored"
    )
    # A window that was decided before is judged anew when something of it arrives.
    eventually(lambda: settled(stack), seconds=PATIENCE, what="every window is decided")
    deadline = time.monotonic() + PATIENCE
    while (wrong := told_wrongly(stack, contents)) and time.monotonic() < deadline:
        time.sleep(2)
    assert wrong == ""

    path = stack.settings.with_name(stack.settings.name + ".json")
    code, output = stack.command("reconcile", "--all", "--json", str(path), timeout=5 * PATIENCE)
    result = json.loads(path.read_text())
    assert result["disagreements"] == [], output
    faults = sum(one["missing"] + one["duplicated"] for one in result["edges"])
    assert code == (3 if faults else 0), output


def told_wrongly(stack: Stack, sources: dict[str, Contents]) -> str:
    """What the verdicts say that the logs do not bear out; empty: nothing."""
    rows, aggregate = all_verdicts(stack, "collector"), read(stack, "aggregate")
    try:
        for source, contents in sources.items():
            check_mirror_edge(rows, source, contents, aggregate)
            check_producer_edge(rows, source, contents)
    except AssertionError as wrong:
        return str(wrong)
    return ""


def check_mirror_edge(
    rows: list[dict[str, Any]], source: str, upstream: Contents, downstream: Contents
) -> None:
    """Per window: what is missing downstream, and what stands there more often than upstream."""
    judged = {row["window"]: row for row in rows if row["edge"] == f"{source}-to-aggregate"}
    assert set(judged) >= set(upstream.by_window)
    for window, sent in upstream.by_window.items():
        arrived = downstream.by_window.get(window, Counter())
        missing = sum(1 for message in sent if message not in arrived)
        copies = sum(
            max(0, arrived[message] - sent[message]) for message in sent if message in arrived
        )
        row = judged[window]
        assert (row["missing"], row["duplicates"]) == (missing, copies), row
        expected = {(False, False): ("COMPLETE", "EXPLAINED"), (False, True): ("DUPLICATION",)}
        assert row["state"] in expected[bool(missing), bool(copies)], row


def check_producer_edge(rows: list[dict[str, Any]], cluster: str, contents: Contents) -> None:
    """Every message in the log was claimed or in doubt, none that was claimed is missing."""
    judged = {row["window"]: row for row in rows if row["edge"] == f"producer-to-{cluster}"}
    for window, seen in contents.by_window.items():
        row = judged[window]
        assert row["observed"] == len(seen), row
        assert row["duplicates"] == sum(seen.values()) - len(seen), row
        assert (row["missing"], row["unclaimed"]) == (0, 0), row


def read(stack: Stack, cluster: str) -> Contents:
    bootstrap = stack.deployment.cluster(cluster).bootstrap_servers
    return log_oracle.read(bootstrap, TOPIC, WINDOW_MS)


def all_verdicts(stack: Stack, source: str) -> list[dict[str, Any]]:
    with open_store(stack.deployment.audit_store) as store, store.read() as connection:
        query = select(verdicts).where(verdicts.c.topic == TOPIC, verdicts.c.source == source)
        return [dict(row) for row in connection.execute(query).mappings()]


def settled(stack: Stack) -> bool:
    """Every window that either datacenter has is decided on every hop."""
    rows = all_verdicts(stack, "collector")
    edges = {row["edge"] for row in rows}
    undecided = [row for row in rows if row["state"] in UNDECIDED]
    return len(edges) >= 4 and not undecided
