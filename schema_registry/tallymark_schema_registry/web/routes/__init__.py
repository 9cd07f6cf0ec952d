"""The paths of the registry, one file for each kind.

Read :mod:`.registering` first (register, look up, check), then :mod:`.subjects` (list and read),
:mod:`.ids` and :mod:`.deleting`; :mod:`.config` has levels and modes, :mod:`.server` what describes
the registry itself.
"""
