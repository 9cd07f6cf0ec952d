"""What one task of a load writes: records as rows, rows as files.

Read :mod:`.rows` (columns of records), :mod:`.formats` and :mod:`.avro_format` (what a row is made
of), :mod:`.places` (its hour), :mod:`.files` (Parquet), :mod:`.quarantine` (what cannot be a row).
"""
