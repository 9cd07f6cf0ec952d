"""One process of the registry: commands in, answers out, over a store that several processes share.

Read :mod:`.registry` first: what the web and the transfer rooms call.
"""
