"""Prepares a producer's batch to be appended: checks it, and compresses it as the topic wants it.
Pure, so any thread may do it.

Checking header, CRC and the lengths of records takes microseconds. Decoding a batch takes longer
the larger it is. It is needed where each record must have a key (compaction) or a timestamp within
limits, where the topic's codec is another one, and with ``record.validation=full``. :func:`is_slow`
detects these cases.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from tallymark.errors import KafkaError
from tallymark.log.config import NEVER, LogConfig
from tallymark.log.disk.files import Data
from tallymark.log.validation.append_time import check_timestamps
from tallymark.log.validation.batch import check_size, validate_batch
from tallymark.log.validation.recompression import recompressed
from tallymark.log.validation.records import check_batch, check_lengths, has_time_limits
from tallymark.protocol.records.batch import HEADER_SIZE, BatchHeader
from tallymark.protocol.records.compression import CODECS

SLOW_BYTES: Final = 16 * 1024
"""Decoding a batch of up to so many bytes takes less than a millisecond, if it is not
compressed."""
_EASY_LEVEL: Final = 9
"""Above it zstd takes milliseconds for its tables alone, however small the batch is."""
_CODEC: Final = 0x07
_LOW_ATTRIBUTES_AT: Final = 22
_MAX_TIMESTAMP: Final = struct.Struct(">q")
_MAX_TIMESTAMP_AT: Final = 35


class Prepared(NamedTuple):
    """A batch that may be appended, unless its producer's sequence says otherwise. ``late`` is an
    error about its records, their timestamps, or its size after recompression. It does not matter
    where the batch was appended before (with other settings); ``data`` is then the original."""

    header: BatchHeader
    data: Data
    late: KafkaError | None = None


def is_slow(data: Data, config: LogConfig, now_ms: int) -> bool:
    """Whether it should not be prepared on an event loop. An estimate from the header of the batch,
    which is not checked here."""
    if len(data) < HEADER_SIZE:
        return False
    codec = data[_LOW_ATTRIBUTES_AT] & _CODEC
    recoded = config.codec is not None and config.codec != CODECS[codec % 5]
    opened = config.compact or recoded or config.record_validation == "full"
    if not opened and not config.log_append_time:
        (newest,) = _MAX_TIMESTAMP.unpack_from(data, _MAX_TIMESTAMP_AT)
        late = config.timestamp_after_max_ms != NEVER and (
            newest > now_ms + config.timestamp_after_max_ms
        )
        opened = late or config.timestamp_before_max_ms != NEVER
    hard = recoded and (config.codec_level or 0) > _EASY_LEVEL
    return opened and (codec > 0 or hard or len(data) > SLOW_BYTES)


def prepare(
    data: Data, config: LogConfig, now_ms: int, name: str, *, control: bool = False
) -> Prepared:
    """Check the batch and give it the topic's codec. ``name`` is the log's, for errors.

    Raises KafkaError as :func:`~tallymark.log.validation.batch.validate_batch` does for its header.
    Errors about its records (:mod:`~tallymark.log.validation.records`,
    :mod:`~tallymark.log.validation.append_time`) and, after recompression, MESSAGE_TOO_LARGE or
    RECORD_LIST_TOO_LARGE of the result are returned as :attr:`Prepared.late`.
    """
    header = validate_batch(data, config, name, control=control)
    try:
        if config.quick:
            check_lengths(header, data, name)
            return Prepared(header, data)
        unpacked = check_batch(header, data, config, name)
        if control:
            return Prepared(header, data)
        if has_time_limits(config):
            check_timestamps(header, data, config, now_ms, name, unpacked)
        if unpacked is None or config.codec is None or config.codec == header.codec:
            return Prepared(header, data)
        made = Prepared(*recompressed(data, unpacked, config.codec, config.codec_level))
        check_size(made.header.size, config, name)
    except KafkaError as late:
        return Prepared(header, data, _bare(late))
    return made


def _bare(error: KafkaError) -> KafkaError:
    """The error without its traceback: the frames hold the decompressed records, and a stored error
    would keep them in memory."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
