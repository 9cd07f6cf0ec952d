"""The places of the numbers that the compiled loops write, and the kinds of a break.

The loops fill two tables of 64-bit integers, which the caller makes and uses again.

``batches``, one row for each batch of a fetch. The upper part is filled by ``find_batches`` (or by
the caller), the lower one by ``read_batches``::

    START        position of the records, behind the header
    END          position after them
    SCRATCH      0: START and END are positions in the data, 1: in the scratch buffer
    COUNT        records, as the header has it
    BASE_OFFSET, LAST_OFFSET
    BASE_TIMESTAMP, MAX_TIMESTAMP                ms
    ATTRIBUTES   of the header: codec, log append time, control ...
    POSITION     where the batch itself begins, in the data
    NEXT         position after it, where the next one begins
    CRC, LEADER_EPOCH, PRODUCER_ID, PRODUCER_EPOCH, BASE_SEQUENCE
    ----------------------------------------------------------------------------------
    ROW          its first record's place in ``columns``
    ROWS         its records there: COUNT, or 0 where it is broken
    BREAK        0, or the kind of the first break
    BREAK_AT     position of the record that is broken, or of the first byte left over

``columns``, one column of the table for each record, one row for each field::

    OFFSET, TIMESTAMP      absolute; ms
    RECORD                 position of the record's length; the record ends where the next begins
    KEY, KEY_SIZE          position and length of the key; a length of -1 is null
    VALUE, VALUE_SIZE      the same of the value
    HEADERS                position of the count of the headers
    STAMP, STAMP_SIZE      value of the last header ``tm``: -1: there is none; 0: empty or null
    SIZE                   bytes of key and value together

Positions are those in the buffer that the batch's records are in.
"""

from __future__ import annotations

from typing import Final

# --- batches
START: Final = 0
END: Final = 1
SCRATCH: Final = 2
COUNT: Final = 3
BASE_OFFSET: Final = 4
LAST_OFFSET: Final = 5
BASE_TIMESTAMP: Final = 6
MAX_TIMESTAMP: Final = 7
ATTRIBUTES: Final = 8
POSITION: Final = 9
NEXT: Final = 10
CRC: Final = 11
LEADER_EPOCH: Final = 12
PRODUCER_ID: Final = 13
PRODUCER_EPOCH: Final = 14
BASE_SEQUENCE: Final = 15
ROW: Final = 16
ROWS: Final = 17
BREAK: Final = 18
BREAK_AT: Final = 19
BATCH_FIELDS: Final = 20
"""Length of a row of ``batches``."""

# --- columns
OFFSET: Final = 0
TIMESTAMP: Final = 1
RECORD: Final = 2
KEY: Final = 3
KEY_SIZE: Final = 4
VALUE: Final = 5
VALUE_SIZE: Final = 6
HEADERS: Final = 7
STAMP: Final = 8
STAMP_SIZE: Final = 9
SIZE: Final = 10
COLUMNS: Final = 11
"""How many ``columns`` there are."""

# --- kinds of a break
WHOLE: Final = 0
OUTSIDE: Final = 1
"""START and END are not within the buffer."""
TOO_MANY: Final = 2
"""The bytes cannot hold so many records."""
RUNS_OVER: Final = 3
"""A record is longer than the bytes that are left."""
BAD_NUMBER: Final = 4
"""A varint without an end within its record, or of more than 64 bits."""
BAD_KEY: Final = 5
BAD_VALUE: Final = 6
BAD_HEADERS: Final = 7
BAD_HEADER_KEY: Final = 8
"""The name of a header is null, no UTF-8, or longer than the record."""
BAD_END: Final = 9
"""The fields of a record do not end where its length says."""
BYTES_LEFT: Final = 10
BEYOND_64_BITS: Final = 11
"""An offset or a timestamp has no room in a column. The pure path can read such a timestamp."""
OFFSET_OUTSIDE: Final = 12
"""The first or the last record's offset is not one of the batch."""
