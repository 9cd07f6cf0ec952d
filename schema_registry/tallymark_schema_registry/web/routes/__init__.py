"""The paths of the registry, one file for each kind.

Read :mod:`.subjects` first (register, look up, list), then :mod:`.ids` and :mod:`.compatibility`;
:mod:`.config` has the compatibility levels and the routes that describe the registry.
"""
