"""The one place where a Spark session is opened, and where Spark's chatter is caught.

A session of ours is quiet: what Spark and its Java machine write goes to a log file, so that a
person sees the job's own lines and, when something is wrong, one line that names the file.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from tallymark.errors import UserError
from tallymark.processes.checks.machine import check_java
from tallymark_spark_jobs.engine.errors import as_user_error
from tallymark_spark_jobs.engine.said import in_files_and_environment, refuse_too_late, spark_home
from tallymark_spark_jobs.engine.settings import LOCAL, LOG4J, chosen, is_local
from tallymark_spark_jobs.engine.sizing import cores_here, local_size, memory_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
def spark_session(
    app: str,
    log: Path,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    planned_rows: int | None = None,
) -> Iterator[SparkSession]:
    """A session for the time of the block, stopped afterwards; Spark's output goes to ``log``.

    ``master``: None leaves it to spark-submit and Spark's own settings, and is ``local[*]`` where
    these say nothing. ``conf``: settings that win over all others; ours are defaults, which
    anything wins over (:mod:`.said`). ``planned_rows``: what the job will read, as far as known: a
    session on this machine alone is made for it.

    Raises UserError without Java or without the Spark extra."""
    require_spark()
    work = Path(tempfile.mkdtemp(prefix="tallymark-spark-"))
    try:
        settings = all_settings(work, master, conf or {}, planned_rows)
        session = _start(app, log, settings, work)
        try:
            yield session
        finally:
            session.stop()
    finally:
        shutil.rmtree(work, ignore_errors=True)


def all_settings(
    work: Path, master: str | None, conf: Mapping[str, str], planned_rows: int | None
) -> dict[str, str]:
    """Every setting that the session is opened with. ``work``: a scratch folder."""
    given = dict(conf) | ({"spark.master": master} if master else {})
    if under_spark_submit():
        refuse_too_late(given)
        said = _of_running_java() | given
    else:
        said = in_files_and_environment(os.environ, spark_home()) | given
        said.setdefault("spark.master", LOCAL)
    size = local_size(planned_rows, cores_here(), memory_here())
    return said | chosen(said, work, size, started=under_spark_submit())


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


def driver_runs_anywhere() -> bool:
    """Whether spark-submit has let the cluster choose the machine of this driver."""
    return under_spark_submit() and _of_running_java().get("spark.submit.deployMode") == "cluster"


def _of_running_java() -> dict[str, str]:
    """The settings of the Java machine that spark-submit has started: its options, and files."""
    from pyspark import SparkConf, SparkContext

    # SparkConf alone does not connect to the Java machine.
    SparkContext._ensure_initialized()  # pyright: ignore[reportPrivateUsage]
    return dict(SparkConf().getAll())


def _start(app: str, log: Path, settings: Mapping[str, str], work: Path) -> SparkSession:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    (work / LOG4J).write_text(_LOG4J, encoding="ascii")
    builder = SparkSession.builder.appName(app)
    for name, value in settings.items():
        builder = builder.config(name, value)
    _choose_python(settings)
    if is_local(settings.get("spark.master", LOCAL)):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    try:
        with _errors_into(log), warnings.catch_warnings():
            # Spark starts its Java machine by fork and exec; Python ≥ 3.12 warns where threads run.
            warnings.simplefilter("ignore", DeprecationWarning)
            session = builder.getOrCreate()
    except PySparkException as error:
        raise as_user_error(error, str(log)) from error
    if under_spark_submit():
        _know_our_source(session)
        if "spark.log.level" not in settings:
            session.sparkContext.setLogLevel("WARN")  # spark-submit's log4j logs every step
    return session


def _know_our_source(session: SparkSession) -> None:
    """Register ``format("tallymark")``. Spark finds it by itself with the Python that its Java
    machine was started with, which under spark-submit may be any other."""
    session.dataSource.register(import_module("pyspark_tallymark").DefaultSource)


def _choose_python(settings: Mapping[str, str]) -> None:
    """The Python of the workers. PySpark itself reads the environment alone, and spark-submit sets
    that only where it starts the driver. UserError if it is not here: Spark plans with it, too."""
    if python := settings.get("spark.pyspark.python"):
        os.environ["PYSPARK_PYTHON"] = python
    chosen_python = os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "/" in chosen_python and not os.access(chosen_python, os.X_OK):
        raise UserError(
            f"the workers' Python {chosen_python} is not here, and the driver runs it too",
            "unpack the archive here: mkdir environment && tar xzf ARCHIVE -C environment",
        )


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
