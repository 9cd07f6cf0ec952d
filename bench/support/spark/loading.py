"""A whole load into a new Delta table: Parquet with zstd, tallies, one commit. The audit is not
told."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tallymark.deployment import BrokerAddress, Cluster, Deployment, LakeSettings
from tallymark_spark_jobs.engine.progress import Steps
from tallymark_spark_jobs.load.job import LoadJob, topics_to_load
from tallymark_spark_jobs.load.landing import Lander, land_here
from tallymark_spark_jobs.load.run import run_load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def load(spark: SparkSession, servers: str, topic: str) -> None:
    """Tasks of Spark."""
    from tallymark_spark_jobs.load.on_spark import lander_on

    _load(lander_on(spark), servers, topic)


def load_here(_: None, servers: str, topic: str) -> None:
    """One process, without Spark."""
    _load(land_here, servers, topic)


def _load(lander: Lander, servers: str, topic: str) -> None:
    host, _, port = servers.rpartition(":")
    cluster = Cluster(name="bench", brokers=(BrokerAddress(host=host, port=int(port)),))
    with tempfile.TemporaryDirectory(prefix="tallymark-bench-") as folder:
        deployment = Deployment(
            clusters=(cluster,), mirrors=(), data_dir=Path(folder), lake=LakeSettings()
        )
        job = LoadJob(deployment, topics=topic)
        quiet = Steps(lambda text: None, quiet=True)
        (found,) = run_load(topics_to_load(job), job.settings(2), lander, quiet)
        assert found.rows, found.problems
