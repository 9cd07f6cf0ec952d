"""Reading a table gives each message once, whatever lies in its folder."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lake_rows import PLACE, ROWS, key, land, load

from tallymark.errors import UserError
from tallymark_spark_jobs.lake.compaction import compact
from tallymark_spark_jobs.lake.opening import Lake
from tallymark_spark_jobs.lake.reading import addresses, dataset, rows
from tallymark_spark_jobs.lake.table import OffsetRange, Place

NEXT = Place("page-views", "2026-01-31", "09")
WIDER = pa.schema([*ROWS, pa.field("user", pa.string())])


def test_a_folder_is_not_a_table(lake: Lake) -> None:
    """A task that died has left its file beside that of its second attempt."""
    table = lake.table("dc1", "page-views")
    land(table.location, OffsetRange(key(0), 0, 500))
    load(table, 0, 500)
    naive = pq.read_table(table.location + "/topic=page-views", partitioning=None)
    assert naive.num_rows == 1_000
    found = rows(table.storage, table.open())
    assert found.num_rows == 500
    assert sorted(found.column("offset").to_pylist()) == list(range(500))


def test_columns_of_folders_have_their_types(lake: Lake) -> None:
    table = lake.table("dc1", "page-views")
    load(table, 0, 10)
    load(table, 0, 20, schema=WIDER, place=NEXT)
    found = rows(table.storage, table.open())
    assert found.schema.names == [*WIDER.names, "topic", "date", "hour"]
    assert found.schema.field("date").type == pa.date32()
    frame = found.to_pandas()
    assert frame.groupby("hour")["offset"].count().to_dict() == {"08": 10, "09": 10}
    assert set(frame["topic"]) == {"page-views"}
    assert frame["user"].isna().all()


def test_only_the_wanted_hours_and_columns_are_read(lake: Lake) -> None:
    table = lake.table("dc1", "page-views")
    load(table, 0, 10)
    load(table, 0, 20, place=NEXT)
    snapshot = table.open()
    of_nine = addresses(table.storage, snapshot, lambda place: place.hour == "09")
    assert len(of_nine) == 2
    assert all("hour=09" in address and Path(address).is_file() for address in of_nine)
    some = rows(table.storage, snapshot, ["offset"], lambda place: place == PLACE)
    assert some.column("offset").to_pylist() == list(range(10))
    hour = dataset(table.storage, snapshot).to_table(filter=pa.compute.field("hour") == "08")
    assert hour.num_rows == 10


def test_a_table_that_is_not_there_has_no_rows(lake: Lake) -> None:
    table = lake.table("dc1", "page-views")
    assert addresses(table.storage, table.open()) == []


_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def deleted(*positions: int) -> dict[str, object]:
    """A deletion vector inside the log, as Delta's protocol has it: a Roaring bitmap in Z85."""
    bitmap = struct.pack("<IIHHI", 12346, 1, 0, len(positions) - 1, 16)
    bitmap += struct.pack(f"<{len(positions)}H", *positions)
    content = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    content += bytes(-len(content) % 4)
    text = ""
    for (word,) in struct.iter_unpack(">I", content):
        text += "".join(_Z85[word // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return {
        "storageType": "i",
        "pathOrInlineDv": text,
        "sizeInBytes": len(content),
        "cardinality": len(positions),
    }


def test_a_table_with_marked_rows_is_not_read_by_its_files(tmp_path: Path) -> None:
    """Spark may delete rows and leave their file as it is. Its files alone would bring these rows
    back, and joining them would do so for good."""
    table = Lake(str(tmp_path)).table("dc1", "page-views")
    load(table, 0, 10)
    newest = table.open().version
    log = Path(table.location, "_delta_log")
    actions = [json.loads(line) for line in (log / f"{newest:020d}.json").read_text().splitlines()]
    add = next(action["add"] for action in actions if "add" in action)
    features = ["deletionVectors"]
    marked = [
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": features,
                "writerFeatures": features,
            }
        },
        {"remove": {"path": add["path"], "dataChange": True, "deletionTimestamp": 0}},
        {"add": {**add, "deletionVector": deleted(1, 3)}},
    ]
    following = log / f"{newest + 1:020d}.json"
    following.write_text("\n".join(json.dumps(action) for action in marked))
    assert table.open().version == newest + 1
    with pytest.raises(UserError, match="marked rows as deleted"):
        rows(table.storage, table.open())
    with pytest.raises(UserError, match="marked rows as deleted"):
        compact(table, 1 << 20, job="job", fewest=2)
