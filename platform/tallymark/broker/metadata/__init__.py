"""The image of the cluster, and its two sources.

Read :mod:`.image` (the value) first, then :mod:`.port` (what a source of images must do), then its
two implementations: :mod:`.local_cluster` and :mod:`.zookeeper_cluster`.
"""
