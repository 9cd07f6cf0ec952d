"""The shape of the lake's settings: which topics the load job writes, and how its tables are."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tallymark.deployment.audit import HOUR_MS
from tallymark.deployment.parts import Name, Part
from tallymark.patterns import require_patterns


class LakeSettings(Part):
    """The data lake: tables that the load job writes, one for each topic of each cluster it loads.
    Where this table is given, even an empty one, the audit has a hop from each of these clusters to
    the lake."""

    path: str = ""
    """The folder of all tables, which every Spark worker has to reach under the same name; empty:
    ``data_dir/lake``."""
    format: Literal["delta", "iceberg"] = "delta"
    """What the tables are: Delta Lake (extra ``lake``) or Apache Iceberg (extra ``iceberg``)."""
    clusters: tuple[Name, ...] = ()
    """The clusters that are loaded; empty: those that are mirrored nowhere, an aggregate cluster
    for instance."""
    topics: str = ".*"
    """A regular expression on whole names: which audited topics are loaded. Internal ones (leading
    ``_``) never are."""
    avro_topics: str = ""
    """A regular expression on whole names: topics whose values are decoded, each field a column,
    by the newest schema that the registry has for ``<topic>-value`` when a load begins. Values of
    other topics stay bytes."""
    target_file_mb: Annotated[int, Field(ge=1, le=4096)] = 128
    """About how large files become: tasks close larger ones, and compaction joins smaller ones."""
    late_after_ms: Annotated[int, Field(ge=0)] = HOUR_MS
    """A row is marked as late if the hour it belongs to had ended so long before the load before
    the one that brought it."""

    overdue_ms: Annotated[int, Field(ge=60_000)] = 26 * HOUR_MS
    """How long after its end a window may wait for its load, before it is UNKNOWN and an alert:
    more than the time between two loads and the time that a load takes."""

    @model_validator(mode="after")
    def _topics_can_be_read(self) -> Self:
        require_patterns("lake", (self.topics, self.avro_topics))
        return self
