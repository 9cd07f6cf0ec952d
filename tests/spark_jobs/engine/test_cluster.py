"""The jobs on a Spark cluster: a master and two workers as processes, and nothing of this checkout.

Driver and executors have the packed Python of ``make spark-package``; settings and the brokers'
authority come by ``--files``. A task fails, a worker dies.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from runpy import run_path
from typing import Any

import pyarrow.parquet as pq
import pytest
from project import ROOT
from security_world import make_certificates
from standalone_cluster import StandaloneCluster

from tallymark import Admin, Producer, SimpleConsumer
from tallymark.deployment import (
    AuditSettings,
    BrokerAddress,
    Cluster,
    ClusterSecurity,
    Deployment,
    LakeSettings,
    Mirror,
    dump_toml,
)
from tallymark.testing.broker_thread import BrokerThread
from tallymark_audit.reporters.producer.interceptor import AuditInterceptor
from tallymark_spark_jobs.lake.opening import Format, Lake

pytestmark = [
    pytest.mark.spark,
    pytest.mark.process,
    pytest.mark.soak,
    pytest.mark.timeout(1500),
]
W = 5_000
EACH = 400
LOST = (7, 8, 250)
TOPIC = "metrics"
PACKAGE = ROOT / "deploy" / "spark_package.py"
EXTRAS = ("spark", "lake", "iceberg")
SUPPORT = ROOT / "tests" / "support" / "spark_jobs"
CLUSTERS = ("dc1", "aggregate")
DELTA, ICEBERG = "tallymark.toml", "iceberg.toml"
"""The settings files, which differ in the lake."""
_numbers = count()
OPTIONS = {
    "reconcile": ("--json", "reconcile.json", "--all"),
    "load": ("--json", "load.json"),
    "stream_load": ("--available-now", "--max-offsets", "150"),
}


@dataclass(frozen=True)
class Site:
    """``run``: the folder of the driver, with the settings, the authority and the Python that the
    package has."""

    run: Path
    spark: StandaloneCluster

    def submit(
        self, job: str, fault: str, *more: str, settings: str = DELTA
    ) -> tuple[subprocess.Popen[str], Path]:
        """Run a job with one fault; returns it, and the file that says that the fault happened."""
        happened = self.run / f"{job}-{fault}-{next(_numbers)}"
        arguments = [
            *("--files", f"{settings},ca.pem"),
            *("--py-files", str(SUPPORT / "faulty_daemon.py")),
            *("--driver-memory", "512m", "--conf", "spark.executor.memory=512m"),
            *("--conf", "spark.python.daemon.module=faulty_daemon"),
            *("--conf", f"spark.executorEnv.FAULT={fault}"),
            *("--conf", f"spark.executorEnv.FAULT_FILE={happened}"),
            *more,
            str(self.site_packages / "tallymark_spark_jobs" / "jobs" / f"{job}.py"),
            *("--settings", settings),
            *OPTIONS[job],
        ]
        python = {"PYSPARK_PYTHON": "./environment/bin/python"}
        if not more:  # no archive: where every machine has it
            python = {"PYSPARK_PYTHON": str(self.run / "environment" / "bin" / "python")}
        return self.spark.submit(arguments, self.run, python), happened

    @property
    def site_packages(self) -> Path:
        (found,) = (self.run / "environment" / "lib").glob("python*/site-packages")
        return found

    def result(self, job: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.run / f"{job}.json").read_text())
        return found


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As make spark-package makes it, with fewer extras."""
    packed = tmp_path_factory.mktemp("package") / "tallymark-spark.tar.gz"
    command = [sys.executable, str(PACKAGE), str(packed), "--extras", ",".join(EXTRAS), "--fast"]
    subprocess.run(command, check=True, timeout=900)
    return packed


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    run = folder / "run"
    run.mkdir()
    lay_out: Any = run_path(str(PACKAGE))["lay_out"]
    lay_out(run / "environment", EXTRAS, compiled=False)
    certificates = make_certificates(folder / "certificates")
    (run / "ca.pem").write_bytes(certificates.authority.read_bytes())
    brokers = [
        BrokerThread(
            folder / name,
            listeners="SSL://127.0.0.1:0",
            ssl_keystore_location=str(certificates.broker),
        )
        for name in CLUSTERS
    ]
    try:
        ports = [broker.start().settings.port for broker in brokers]
        deployment = _deployment(folder, ports)
        for settings, lake in ((DELTA, "delta"), (ICEBERG, "iceberg")):
            place = LakeSettings(path=str(folder / lake), format=lake)  # type: ignore[arg-type]
            (run / settings).write_text(dump_toml(deployment.model_copy(update={"lake": place})))
        _publish(deployment, str(certificates.authority))
        with StandaloneCluster(folder / "spark") as spark:
            yield Site(run, spark)
    finally:
        for broker in brokers:
            broker.stop()


def _deployment(folder: Path, ports: list[int]) -> Deployment:
    """The authority is named without a folder, as every file that travels by --files."""
    security = ClusterSecurity(security_protocol="SSL", ssl_truststore_location="ca.pem")
    return Deployment(
        data_dir=folder / "data",
        clusters=tuple(
            Cluster(name=name, brokers=(BrokerAddress(port=port),), security=security)
            for name, port in zip(CLUSTERS, ports, strict=True)
        ),
        mirrors=(Mirror(source="dc1", target="aggregate"),),
        audit=AuditSettings(window_ms=W, settle_min_ms=0),
    )


def _publish(deployment: Deployment, authority: str) -> None:
    """Messages of four windows, of which the copy in the aggregate lacks LOST."""
    dc1, aggregate = (
        {
            "bootstrap_servers": cluster.bootstrap_servers,
            "security_protocol": "SSL",
            "ssl_truststore_location": authority,
        }
        for cluster in deployment.clusters
    )
    for place in (dc1, aggregate):
        with Admin(**place) as admin:  # type: ignore[arg-type]
            admin.create_topic(TOPIC, 4)
    end = time.time_ns() // 1_000_000 // W * W
    with Producer(**dc1, server="web-1", interceptors=[AuditInterceptor(W)]) as producer:  # type: ignore[arg-type]
        for n in range(EACH):
            at = end - 4 * W + n * (4 * W) // EACH
            producer.send(TOPIC, b"value %d" % n, partition=n % 4, timestamp=at)
    with (
        SimpleConsumer(**dc1) as consumer,  # type: ignore[arg-type]
        Producer(**aggregate, audit=False) as producer,  # type: ignore[arg-type]
    ):
        for partition in range(4):
            for record in consumer.fetch(TOPIC, partition, 0).records():
                if int(record.value.split()[1]) in LOST:  # type: ignore[union-attr]
                    continue
                producer.send(
                    TOPIC,
                    record.value,
                    partition=partition,
                    timestamp=record.timestamp,
                    headers=record.headers,
                )


def test_reconcile_with_a_task_that_fails_once(site: Site) -> None:
    """Once is no reason to give up: Spark runs the task again, elsewhere or there."""
    job, happened = site.submit("reconcile", "fail")
    _ends(job, 3)
    _process, source = happened.read_text().split()
    assert not Path(source).is_relative_to(ROOT), "the checkout"
    _names_the_lost(site)


@pytest.mark.soak
def test_load_while_a_worker_dies(site: Site) -> None:
    """Every message of the aggregate once, whatever the dead task had written."""
    job, happened = site.submit("load", "hang")
    _kill_its_worker(site, happened, job)
    _ends(job, 0)
    _is_whole(site.run.parent / "delta", "delta")


@pytest.mark.soak
def test_reconcile_from_the_archive(site: Site, archive: Path) -> None:
    """No machine has the packed Python: spark-submit brings it to each."""
    job, happened = site.submit("reconcile", "fail", "--archives", f"{archive}#environment")
    _ends(job, 3)
    _process, source = happened.read_text().split()
    assert not Path(source).is_relative_to(ROOT), "the checkout"
    assert not Path(source).is_relative_to(site.run), "unpacked by the executor, not by the driver"
    _names_the_lost(site)


@pytest.mark.soak
def test_reconcile_while_a_worker_dies(site: Site) -> None:
    job, happened = site.submit("reconcile", "hang")
    _kill_its_worker(site, happened, job)
    _ends(job, 3)
    _names_the_lost(site)


@pytest.mark.soak
def test_load_into_iceberg_while_a_worker_dies(site: Site) -> None:
    job, happened = site.submit("load", "hang", settings=ICEBERG)
    _kill_its_worker(site, happened, job)
    _ends(job, 0)
    _is_whole(site.run.parent / "iceberg", "iceberg")


@pytest.mark.soak
@pytest.mark.parametrize("fault", ["fail", "hang"])
def test_a_stream_of_batches(site: Site, fault: str) -> None:
    """Several batches; in the first one a task fails, or its worker dies."""
    settings = f"stream-{fault}.toml"
    told = (site.run / DELTA).read_text()
    lake = site.run.parent / f"stream-{fault}"
    (site.run / settings).write_text(told.replace(str(site.run.parent / "delta"), str(lake)))
    for _ in range(3):  # Spark gives new Pythons ten seconds: a machine that is busy takes longer
        job, happened = site.submit("stream_load", fault, settings=settings)
        if fault == "hang":
            _kill_its_worker(site, happened, job)
        shown, told = job.communicate(timeout=600)
        if "Python worker failed to connect back" not in told + shown:
            break
    assert job.returncode == 0, f"{shown[-3000:]}\n{told[-6000:]}"
    assert happened.is_file()
    _is_whole(lake, "delta")


def _is_whole(folder: Path, format: Format) -> None:
    table = Lake(str(folder), format).table("aggregate", TOPIC)
    rows = [
        (row["topic_id"], row["partition"], row["offset"])
        for file in table.open().files()
        for row in _read(Path(table.location) / file.path)
    ]
    assert len(rows) == len(set(rows)) == EACH - len(LOST)


def _read(file: Path) -> list[dict[str, Any]]:
    with pq.ParquetFile(file) as parquet:
        found: list[dict[str, Any]] = parquet.read(["topic_id", "partition", "offset"]).to_pylist()
    return found


def _kill_its_worker(site: Site, happened: Path, job: subprocess.Popen[str]) -> None:
    """The one where a task hangs; another comes, as on a cluster that heals itself."""
    deadline = time.monotonic() + 400
    while not (happened.is_file() and happened.read_text()):
        assert job.poll() is None, "".join(job.communicate())[-5000:]
        assert time.monotonic() < deadline
        time.sleep(0.2)
    name = site.spark.worker_of(int(happened.read_text().split()[0]))
    site.spark.kill_worker(name)
    site.spark.add_worker(f"{name}-again")


def _ends(job: subprocess.Popen[str], code: int) -> None:
    shown, told = job.communicate(timeout=600)
    assert job.returncode == code, f"{shown[-3000:]}\n{told[-6000:]}"
    assert "Traceback" not in shown


def _names_the_lost(site: Site) -> None:
    missing = [
        last - first + 1
        for verdict in site.result("reconcile")["verdicts"]
        if verdict["edge"] == "dc1-to-aggregate"  # nothing is in the lake yet
        for cell in verdict["cells"]
        for first, last in zip(cell["missing"][::2], cell["missing"][1::2], strict=True)
    ]
    assert sum(missing) == len(LOST)
