"""A batch made ready for another log is the same, but for what belongs to the log it is from."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark.protocol.records.compression import CODECS
from tallymark.protocol.records.rebatch import is_dense, rebatch

RECORDS = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=20),
        st.none() | st.binary(max_size=200),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2).map(
            tuple
        ),
        st.integers(0, 2**41),
    ),
    min_size=1,
    max_size=20,
)
IDS = st.integers(-1, 2**40)


@settings(deadline=None)
@given(RECORDS, st.sampled_from(CODECS), st.integers(0, 2**50), IDS, IDS, st.booleans())
def test_only_the_producer_and_the_place_change(
    records: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]],
    codec: str,
    offset: int,
    old: int,
    new: int,
    transactional: bool,
) -> None:
    data = bytearray(
        encode_batch(
            records, base_offset=offset, leader_epoch=7, compression=codec, producer_id=old
        )
    )
    if transactional:
        data[22] |= 0x10  # its transaction is of the other cluster
    (batch,) = split_batches(bytes(data))
    assert is_dense(batch)
    header, payload = rebatch(batch, new, 3, 99)
    (out,) = split_batches(header + bytes(payload))
    out.check_crc()
    assert out.header._replace(crc=0) == batch.header._replace(
        crc=0,
        base_offset=0,
        partition_leader_epoch=-1,
        attributes=batch.header.attributes & 7,
        producer_id=new,
        producer_epoch=3,
        base_sequence=99,
    )
    assert out.data[61:] == batch.data[61:]
    assert [record[1:] for record in out.records()] == [record[1:] for record in batch.records()]
