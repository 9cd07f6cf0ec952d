"""A topic's records in a file, and back: ``tallymark export`` and ``import``.

Two formats; the first bytes of a file show which. Both hold the same; bytes are exact. **JSON
lines**, for looking and for other tools::

    {"tallymark-export": 1, "topic": "clicks", "topic_id": "…", "cluster_id": "…",
     "exported_at_ms": 1769860800000, "partitions": {"0": [17, 1017], "1": [0, 0]}}      in one line
    {"partition": 0, "offset": 17, "timestamp": 1769860700123, "key": "a2V5", "value": "…",
     "headers": [["tm", "AQ…"], ["trace", null]]}                                     one a record
    {"records": {"0": 1000, "1": 0}, "crc32": {"0": 2774051427, "1": 0}}               the last line

Keys, values and headers' contents are base64, null where there is none; ``partitions`` are the
first offset and the one behind the last of each. **Avro object container** (compact: deflate), for
every Avro reader: records of the schema in :mod:`.avro_file`, the first and last line of the other
format as one JSON object in the metadata ``tallymark.export``. The order within a partition is that
of the log; those of different partitions are mixed.

A file is written beside its place as ``FILE.partial`` and renamed when it is whole and synced: a
file with its own name is complete, and its counts say so. The checksums (:class:`.plan.Totals`)
notice what changed later: neither base64 nor deflate do. An import reads the file twice, and sends
nothing of one that is damaged.

Reading order: :mod:`.plan` (what a file is of), :mod:`.json_file` and :mod:`.avro_file` (the
formats), :mod:`.open_file` (which of them), :mod:`.exporting`, :mod:`.importing`,
:mod:`.import_state`.
"""
