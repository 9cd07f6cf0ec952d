"""Checks of this machine and of a running stack, each a small function that returns findings.

Read :mod:`.reach` first (what a finding is, and whether a server can be reached), then
:mod:`.machine` (Java, disk, ports, packages) and :mod:`.file_modes` (files that others may read).
"""
