"""Checks of this machine and of a running stack, each a small function that returns findings.

Read :mod:`.reach` first (what a finding is), then :mod:`.machine` and :mod:`.file_modes`.
"""
