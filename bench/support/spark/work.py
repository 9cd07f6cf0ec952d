"""What ``bench/spark.py`` measures: one function a row. Each reads a topic and returns the number
of its records.

A row of Spark's gets the session, the brokers and the topic; whatever it makes is thrown away by
Spark's ``noop`` writer, which takes all columns. A row without Spark gets no session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from support.spark.loading import load, load_here

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WINDOW_MS: Final = 600_000


def source(spark: Any, servers: str, topic: str, **options: str) -> DataFrame:
    """A frame of our source."""
    given = {"kafka.bootstrap.servers": servers, "subscribe": topic, **options}
    frame: DataFrame = spark.read.format("tallymark").options(**given).load()
    return frame


def drained(frame: DataFrame) -> None:
    """Have all rows made, and thrown away."""
    frame.write.format("noop").mode("overwrite").save()


def records(spark: SparkSession, servers: str, topic: str) -> None:
    """``mode=records``, all columns."""
    drained(source(spark, servers, topic))


def values(spark: SparkSession, servers: str, topic: str) -> None:
    """``mode=records``, values and offsets only."""
    drained(source(spark, servers, topic, columns="value,offset"))


def stamps(spark: SparkSession, servers: str, topic: str) -> None:
    """``mode=stamps``, all columns."""
    drained(source(spark, servers, topic, mode="stamps"))


def runs(spark: SparkSession, servers: str, topic: str) -> None:
    """``mode=runs``: counted in the tasks."""
    drained(source(spark, servers, topic, mode="runs", windowMs=str(WINDOW_MS)))


def cells(spark: SparkSession, servers: str, topic: str) -> None:
    """``mode=cells``: counted in the tasks, a row a cell."""
    drained(source(spark, servers, topic, mode="cells", windowMs=str(WINDOW_MS)))


def runs_with_contents(spark: SparkSession, servers: str, topic: str) -> None:
    """``mode=runs``, and keys and values are hashed."""
    more = {"includeContentHash": "true", "windowMs": str(WINDOW_MS)}
    drained(source(spark, servers, topic, mode="runs", **more))


def cells_of_stamps(spark: SparkSession, servers: str, topic: str) -> None:
    """The runs of every cell, counted by Spark out of ``mode=stamps``."""
    from tallymark_spark_jobs.reconcile.counts import cell_runs

    drained(cell_runs(source(spark, servers, topic, mode="stamps"), WINDOW_MS))


def connector(spark: SparkSession, servers: str, topic: str) -> None:
    """Spark's own connector, all columns."""
    given = {"kafka.bootstrap.servers": servers, "subscribe": topic}
    options = {"startingOffsets": "earliest", "minPartitions": "8"}
    drained(spark.read.format("kafka").options(**given, **options).load())


def arrow(_: None, servers: str, topic: str) -> None:
    """Our source's rows as Arrow batches, in one process without Spark."""
    from tallymark_spark_jobs.source.log_reader import plan_spans, read_batches
    from tallymark_spark_jobs.source.options import parse_options

    options = parse_options({"kafka.bootstrap.servers": servers, "subscribe": topic})
    for span in plan_spans(options):
        for _batch in read_batches(options, span):
            pass


def counted(_: None, servers: str, topic: str) -> None:
    """``mode=runs`` in one process without Spark."""
    from tallymark_spark_jobs.source.log_reader import plan_spans, read_batches
    from tallymark_spark_jobs.source.options import parse_options

    given = {"kafka.bootstrap.servers": servers, "subscribe": topic, "mode": "runs"}
    options = parse_options({**given, "windowMs": str(WINDOW_MS)})
    for span in plan_spans(options):
        for _batch in read_batches(options, span):
            pass


def confluent(_: None, servers: str, topic: str) -> None:
    """confluent-kafka, in one process: lists of messages and their values."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    settings = {"bootstrap.servers": servers, "group.id": "bench", "enable.auto.commit": False}
    consumer = Consumer(settings)
    numbers = consumer.list_topics(topic, 30).topics[topic].partitions
    places = [TopicPartition(topic, number, OFFSET_BEGINNING) for number in numbers]
    left = sum(consumer.get_watermark_offsets(place)[1] for place in places)
    consumer.assign(places)
    while left > 0:
        for message in consumer.consume(10_000, 1.0):
            left -= message.value() is not None
    consumer.close()


WITH_SPARK: Final[Mapping[str, Callable[[Any, str, str], None]]] = {
    "records": records,
    "value and offset": values,
    "stamps": stamps,
    "runs": runs,
    "cells": cells,
    "runs and contents": runs_with_contents,
    "cells of stamps": cells_of_stamps,
    "load": load,
    "Spark's connector": connector,
}
WITHOUT_SPARK: Final[Mapping[str, Callable[[Any, str, str], None]]] = {
    "Arrow without Spark": arrow,
    "runs without Spark": counted,
    "load without Spark": load_here,
    "confluent-kafka": confluent,
}
