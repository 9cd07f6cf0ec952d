"""Pauses by the garbage collector in a process with very many objects."""

from __future__ import annotations

import json
import subprocess
import sys

HOLD = """
import gc, json
from tallymark.processes.gc_pauses import collect_rarely, keep_loaded

full = 0
def count(phase, info):
    global full
    full += phase == "start" and info["generation"] == 2
gc.callbacks.append(count)
if {few}:
    collect_rarely()
held = [[[]] for _ in range(300_000)]
growing = full
if {few}:
    keep_loaded()
frozen = gc.get_freeze_count()
class Node: pass
for _ in range(50_000):
    node = Node()
    node.me = node
left = sum(type(each) is Node for each in gc.get_objects())
print(json.dumps([growing, full - growing, frozen, left]))
"""


def run(*, few: bool) -> list[int]:
    """Full collections while objects come, those afterwards, frozen objects, garbage that is
    left."""
    code = HOLD.replace("{few}", str(few))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    found: list[int] = json.loads(done.stdout)
    return found


def test_objects_that_come_and_stay_cause_no_full_collections() -> None:
    """A broker that took over the leads of 10,000 partitions stood still for 0.3 to 0.7 s, several
    times: Python looked at all objects each time there were a quarter more."""
    assert run(few=False)[0] > 0, "what this is about"
    growing, later, frozen, _ = run(few=True)
    assert growing == later == 0
    assert frozen > 600_000


def test_garbage_that_refers_to_itself_is_still_collected() -> None:
    assert run(few=True)[3] < 20_000
