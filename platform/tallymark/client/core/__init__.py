"""What producers and consumers share: connections, metadata of the cluster, the I/O thread,
settings.

Read :mod:`.bootstrap` and :mod:`.cluster` first; :mod:`.io_thread` is where a client runs,
:mod:`.security` how it logs in.
"""
