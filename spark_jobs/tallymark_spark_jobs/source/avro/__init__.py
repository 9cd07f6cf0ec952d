"""Values in Avro, as columns of their own.

Read :mod:`.settings` first (the options, and the reader's schema, fixed on the driver), then
:mod:`.kinds` (an Avro type as an Arrow type), :mod:`.reader_schema` and :mod:`.decoding` (bytes to
a column, in the tasks), and :mod:`.rows` (the batches of the source with such a column).
"""
