"""What a broker does when the image of the cluster changes: it opens, leads and leaves logs.

Read :mod:`.apply_image` first; :mod:`.open_logs` does the slow part in threads.
"""
