"""Our choice of Spark's settings, for what no one else has said. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tallymark_spark_jobs.engine.sizing import SMALL, LocalSize

LOCAL: Final = "local[*]"
JAVA_OPTIONS: Final = "spark.driver.defaultJavaOptions"
LOG4J: Final = "log4j2.properties"
_EVERYWHERE: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
}


def is_local(master: str) -> bool:
    """Whether Spark runs inside this process's Java machine, on this host alone. With
    ``local-cluster`` executors are processes of their own."""
    return master == "local" or master.startswith("local[")


def chosen(
    said: Mapping[str, str], work: Path, size: LocalSize = SMALL, *, started: bool = False
) -> dict[str, str]:
    """The settings that we add to what others have ``said``, never one that is among them.
    ``work``: a scratch folder. ``started``: the Java machine runs, and what it is started with can
    no more be chosen."""
    ours = dict(_EVERYWHERE)
    if is_local(said.get("spark.master", LOCAL)):
        ours |= _local(said, work, size)
    if started:
        ours = {
            name: ours[name] for name in ours if name not in ("spark.driver.memory", JAVA_OPTIONS)
        }
    return {name: value for name, value in ours.items() if name not in said}


def _local(said: Mapping[str, str], work: Path, size: LocalSize) -> dict[str, str]:
    return {
        # No one would find it: the port is new each time, and the session lives for its job.
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(work / "warehouse"),
        "spark.local.dir": str(work),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": f"{size.heap_mb}m",
        "spark.sql.shuffle.partitions": str(size.shuffle_partitions),
        "spark.sql.adaptive.enabled": "true" if size.optimize else "false",
        JAVA_OPTIONS: " ".join(_java_options(said, work, size)),
    }


def _java_options(said: Mapping[str, str], work: Path, size: LocalSize) -> list[str]:
    """Java's, which come before the ``spark.driver.extraJavaOptions`` of others. Two collectors
    named would keep Java from starting."""
    options = [
        f"-Dderby.system.home={work}",
        f"-Dlog4j2.configurationFile={(work / LOG4J).as_uri()}",
    ]
    if not size.optimize and "spark.driver.extraJavaOptions" not in said:
        options += ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    return options
