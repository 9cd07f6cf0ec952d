"""The commands of the schema registry.

:mod:`.serve` is ``tallymark registry``, the server.
Each command is loaded when it is called.
"""
