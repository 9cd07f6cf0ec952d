"""What a Produce request and a Fetch response carry: record batches, and the records in them.

Read :mod:`.batch` (the format), :mod:`.writer` and :mod:`.reader` (record by record), then
:mod:`.column_writer`, :mod:`.columns` and :mod:`.runs` (the fast paths). :mod:`.check` and
:mod:`.walk` decide whether bytes are records; :mod:`.message_sets` reads the older formats.
"""
