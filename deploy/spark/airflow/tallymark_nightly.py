"""Every night: wait until a day has arrived, load it, reconcile it, and say that it is there.

A copy of this file in the folder of the DAGs is a working start; the settings below are what
differs from place to place. Days are UTC. Back-fill with Airflow's own command:

    airflow backfill create --dag-id tallymark_nightly --from-date 2026-01-01 --to-date 2026-01-31
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, Asset
from airflow.timetables.interval import CronDataIntervalTimetable
from tallymark_gate import CompleteThroughSensor

CLUSTER = "aggregate"
EDGES = ("dc1-to-aggregate", "dc2-to-aggregate")
"""What has to be complete before a day is loaded."""
TOPICS = ("page-views",)
JOBS = "/opt/tallymark/jobs"
"""Copies of spark_jobs/tallymark_spark_jobs/jobs/*.py, where spark-submit runs."""
SETTINGS = "/etc/tallymark/tallymark.toml"
ENVIRONMENT = "/opt/tallymark/tallymark-spark.tar.gz#environment"
"""Made by make spark-package."""
PYTHON = {"spark.pyspark.python": "./environment/bin/python"}

with DAG(
    dag_id="tallymark_nightly",
    # A data interval is a whole day, also for the run that is started by hand.
    schedule=CronDataIntervalTimetable("15 2 * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=30)},
    doc_md=__doc__,
    tags=["tallymark"],
) as dag:
    DAY = ["--from", "{{ data_interval_start }}", "--to", "{{ data_interval_end }}"]

    load = SparkSubmitOperator(
        task_id="load",
        name="tallymark-load",
        application=f"{JOBS}/load.py",
        archives=ENVIRONMENT,
        conf=PYTHON,
        application_args=["--settings", SETTINGS],
    )
    # Exit codes 3 (discrepancies) and 4 (not decided yet) fail the task; it may run again at will.
    reconcile = SparkSubmitOperator(
        task_id="reconcile",
        name="tallymark-reconcile",
        application=f"{JOBS}/reconcile.py",
        archives=ENVIRONMENT,
        conf=PYTHON,
        application_args=["--settings", SETTINGS, *DAY, "--recheck-days", "3"],
    )
    for topic in TOPICS:
        for edge in EDGES:
            arrived = CompleteThroughSensor(
                task_id=f"arrived__{edge}__{topic}",
                edge=edge,
                topic=topic,
                timeout=timedelta(hours=12).total_seconds(),
            )
            arrived >> load
        # DAGs that are scheduled by this asset begin when the day is proven to be in the lake.
        in_the_lake = CompleteThroughSensor(
            task_id=f"in_the_lake__{topic}",
            edge=f"{CLUSTER}-to-lake",
            topic=topic,
            timeout=timedelta(hours=6).total_seconds(),
            outlets=[Asset(f"tallymark-{topic}", uri=f"tallymark://{CLUSTER}/{topic}")],
        )
        load >> in_the_lake
    load >> reconcile
