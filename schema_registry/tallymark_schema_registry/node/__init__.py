"""One process of the registry: commands in, answers out, over a store that several processes share.

Read :mod:`.registry` first: what the web and the transfer rooms call. Then :mod:`.shell`, which
puts the parts together, and these::

    replica        the catalog, kept equal to the store's; whether it is current
    writer         commands that wait are decided and stored together, with :mod:`.batches`
    texts, views   what the catalog does not have: texts, read when they are asked for
    understanding  what only texts show: canonical texts and comparisons, in :mod:`.workers`
    feed           the changes, for clients that follow them
"""
