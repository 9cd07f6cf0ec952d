"""The one place where a Spark session is configured, and where Spark's chatter is caught.

A session of ours is quiet: what Spark and its Java machine write goes to a log file, so that a
person sees the job's own lines and, when something is wrong, one line that names the file.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from tallymark.errors import UserError
from tallymark.processes.checks.machine import check_java
from tallymark_spark_jobs.engine.errors import as_user_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{ISO8601} %p %c{1}: %m%n
"""


@contextmanager
def spark_session(app: str, log: Path, master: str | None = None) -> Iterator[SparkSession]:
    """A session for the time of the block, stopped afterwards; Spark's output goes to ``log``.

    ``master``: None leaves it to spark-submit, and is ``local[*]`` where there is no spark-submit.
    Raises UserError without Java or without the Spark extra.
    """
    require_spark()
    work = Path(tempfile.mkdtemp(prefix="tallymark-spark-"))
    try:
        session = _start(app, log, master, work)
        try:
            yield session
        finally:
            session.stop()
    finally:
        shutil.rmtree(work, ignore_errors=True)


def require_spark() -> None:
    """UserError unless Spark can run here: the extra installed, and Java where we start it."""
    try:
        for package in ("pyarrow", "pyspark"):
            import_module(package)
    except ModuleNotFoundError as error:
        raise UserError(
            f"the Spark jobs need the package {error.name}, which is not installed",
            "pip install 'tallymark[spark]'",
        ) from None
    if under_spark_submit() or _java_home():
        return
    finding = check_java()[0]
    if finding.grade == "failure":
        raise UserError(f"the Spark jobs need Java: {finding.text}", finding.do)


def _java_home() -> bool:
    """Whether JAVA_HOME names a Java, which Spark then takes instead of the one on the PATH."""
    home = os.environ.get("JAVA_HOME", "")
    return home != "" and (Path(home) / "bin" / "java").is_file()


def under_spark_submit() -> bool:
    """Whether spark-submit has started this process and a Java machine for it."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def configuration(work: Path, local: bool) -> dict[str, str]:
    """Every setting of our sessions. ``work`` is a scratch folder; ``local``: Spark runs inside
    this process's Java machine, on this host alone."""
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(work / "warehouse"),
    }
    if not local:
        return settings
    return settings | {
        # The data is counted down to a few rows before anything is shuffled.
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(work),
        # A job of seconds never earns back what the optimizing compiler costs on two cores.
        "spark.driver.extraJavaOptions": (
            f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dderby.system.home={work} "
            f"-Dlog4j2.configurationFile={(work / 'log4j2.properties').as_uri()}"
        ),
    }


def _start(app: str, log: Path, master: str | None, work: Path) -> SparkSession:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    chosen = master or (None if under_spark_submit() else LOCAL)
    local = chosen is not None and chosen.startswith("local")
    (work / "log4j2.properties").write_text(_LOG4J, encoding="ascii")
    builder = SparkSession.builder.appName(app)
    if chosen is not None:
        builder = builder.master(chosen)
    for name, value in configuration(work, local).items():
        builder = builder.config(name, value)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    try:
        with _errors_into(log), warnings.catch_warnings():
            # Spark starts its Java machine by fork and exec; Python ≥ 3.12 warns where threads run.
            warnings.simplefilter("ignore", DeprecationWarning)
            session = builder.getOrCreate()
    except PySparkException as error:
        raise as_user_error(error, str(log)) from error
    if under_spark_submit():
        session.sparkContext.setLogLevel("WARN")  # spark-submit's log4j logs every step
    return session


@contextmanager
def _errors_into(log: Path) -> Iterator[None]:
    """Whatever process is started inside writes its standard error to the end of ``log``."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
