"""Loops over bytes that numba compiles to machine code, where numba is installed (extra ``fast``).

Read :mod:`.kernel` first: when a loop is compiled, and what else is done if it cannot be. Then
:mod:`.compiler` (the calls of numba) and :mod:`.store` (the cache on the disk).
"""
