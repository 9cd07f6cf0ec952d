"""Applies a new image of the cluster: the broker opens the logs it must lead, and leaves others.

Read :mod:`.apply_image` first: it decides which logs to open and to leave. :mod:`.open_logs` does
the slow part, which reads disks, in threads.
"""
