"""The places of the numbers that the compiled loops write about runs.

``runs``, one row for each run, filled by ``cut_runs`` and the loops after it::

    BATCH         number of the (first) batch that it is in
    FIRST_ROW     place of its first record in ``columns``; the others follow
    COUNT         records
    OFFSET        of the first record
    WINDOW        start of the window, ms
    STAMP, STAMP_SIZE    the first record's stamp, as in ``columns``
    SERVER        position of the server's name, which ends the stamp; -1: this is no stamp
    NUMBER        position of the sequence in the stamp
    PARTITION     of the stamp
    SEQUENCE      of the first record; -1 without a stamp
    BYTES         of keys and values
    EARLIEST, LATEST     timestamps, ms
    SKEWED        records with a timestamp outside of what is allowed
    SKETCH, SKETCHES     place and number of its rows in ``sketches``: (bucket, count)
    BLOCK, BLOCKS        place and number of its rows in ``blocks``: (block, records, hash)

Positions are those in the buffer of the batch: the data, or the scratch buffer. Each of the three
tables has as many rows as ``columns`` has records, so none can be too short.
"""

from __future__ import annotations

from typing import Final

BATCH: Final = 0
FIRST_ROW: Final = 1
COUNT: Final = 2
OFFSET: Final = 3
WINDOW: Final = 4
STAMP: Final = 5
STAMP_SIZE: Final = 6
SERVER: Final = 7
NUMBER: Final = 8
PARTITION: Final = 9
SEQUENCE: Final = 10
BYTES: Final = 11
EARLIEST: Final = 12
LATEST: Final = 13
SKEWED: Final = 14
SKETCH: Final = 15
SKETCHES: Final = 16
BLOCK: Final = 17
BLOCKS: Final = 18
RUN_FIELDS: Final = 19
"""Length of a row of ``runs``."""
SKETCH_FIELDS: Final = 2
BLOCK_FIELDS: Final = 3
CRC_TABLES: Final = 8
"""Tables of 256 numbers each, by which the hashes of contents are made."""
