"""What a broker does when the image of the cluster changes: it opens, leads and leaves logs.

Read :mod:`.apply_image` first: it decides what to open and to leave. :mod:`.open_logs` does the
slow part, which reads disks, in threads.
"""
