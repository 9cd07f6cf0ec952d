"""``tallymark attach``: the audit beside Kafka clusters that are there already.

Read :mod:`.request` (what the command line asks for), :mod:`.inspection` (what the clusters answer,
in the types of :mod:`.found`) and :mod:`.plan` (what is decided of both, pure) first; then
:mod:`.attach_run`, which does it. The other files are pure parts of these.
"""
