"""Logs as an endless table: ``spark.readStream.format("tallymark")``.

Read :mod:`.settings` first (the options), then :mod:`.offsets` (how far a micro-batch goes: pure),
:mod:`.beginnings` (where the stream began, kept so that a replay of its first batch reads the same)
and :mod:`.stream_reader` (what Spark calls); :mod:`.admission` is the part that needs PySpark 4.2.
"""
