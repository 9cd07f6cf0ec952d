"""The Kafka wire protocol: bytes on one side, typed values on the other. No I/O, no clock.

Reading order: :mod:`~tallymark.protocol.schema` (how a message is declared once for all its
versions), :mod:`~tallymark.protocol.messages` (the declarations), :mod:`~tallymark.protocol.codec`
(encode and decode), :mod:`~tallymark.protocol.frames` (headers and size prefixes), then
:mod:`~tallymark.protocol.records.batch` (the record batches inside a Produce or Fetch).
:mod:`tallymark.protocol.wire` has hand-written codecs for these two, :mod:`tallymark.protocol.acls`
the words of access control.
"""
