"""The fields of :class:`~tallymark.broker.settings.broker.BrokerSettings`, by what they are about.

In the order of the reference: :mod:`.listening`, :mod:`.access`, :mod:`.logs`,
:mod:`.replication`, :mod:`.clients`, :mod:`.transactions`, :mod:`.environment`.
:mod:`.part` is what they have in common.
"""
