"""The journal of a producer's claims: ``kill -9`` loses none.

:mod:`.layout` draws the file and reads it, :mod:`.writer` keeps it while the run lives,
:mod:`.orphans` publishes what dead runs left behind.
"""
