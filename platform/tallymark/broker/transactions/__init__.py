"""The transaction coordinator: the leader of a partition of ``__transaction_state``.

It stands on :mod:`tallymark.broker.coordinators`, as groups do; what it decides is in
:mod:`tallymark.transactions`. Read :mod:`.shard` first (the transactional ids of one partition),
then :mod:`.shards` (which partitions this broker leads), :mod:`.sending` (markers, on their way
until every partition has them) and :mod:`.looking_over` (what is overdue or was not used for long).
"""
