"""The administrator's client: topics, configurations, groups, offsets, records, users, ACLs.

Read :mod:`.base` (one cluster, one I/O thread) and :mod:`.results` first, then one subject, for
example :mod:`.topics`. :mod:`.admin` joins the subjects into the class ``Admin``.
"""
