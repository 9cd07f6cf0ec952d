"""The decisions of a transaction coordinator (KIP-98, KIP-360, KIP-890). Pure: no I/O, no clock, no
random.

``decide → append → replay``: a decision returns the transaction as it becomes; the broker appends
it to the id's partition of ``__transaction_state``, and :mod:`~tallymark.transactions.state`
replays that. Read in this order:

:mod:`~tallymark.transactions.transaction`   a transactional id, its states and epochs
:mod:`~tallymark.transactions.inputs`        what comes in and goes out, and :class:`Decision`
:mod:`~tallymark.transactions.initialising`  InitProducerId
:mod:`~tallymark.transactions.adding`        AddPartitionsToTxn, AddOffsetsToTxn and verification
:mod:`~tallymark.transactions.ending`        EndTxn, an abort by the coordinator, completion
:mod:`~tallymark.transactions.markers`       which markers go to which broker, and when again
:mod:`~tallymark.transactions.state`         what is kept: changed by replay only; what is overdue
:mod:`~tallymark.transactions.records`       Kafka's record formats of ``__transaction_state``
:mod:`~tallymark.transactions.patterns`      which ids a client's pattern matches, in linear time
"""
