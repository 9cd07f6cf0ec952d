"""A Java machine of its own for tests whose settings count only where one is started.

PySpark starts one Java machine a process and keeps it for all later sessions: jars, system
properties and ``spark-defaults.conf`` of a later session come too late. Tests of a run share their
process, so such tests end the machine before, and theirs after.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def own_jvm() -> Iterator[None]:
    """Sessions in the block start a Java machine, which ends with it. No session may be there."""
    _end()
    try:
        yield
    finally:
        _end()


def _end() -> None:
    from pyspark import SparkContext

    context: Any = SparkContext
    assert context._active_spark_context is None, "a session is still there"
    gateway = context._gateway
    if gateway is None:
        return
    gateway.shutdown()
    gateway.proc.stdin.close()  # what it waits for
    gateway.proc.wait(60)
    context._gateway = context._jvm = None
