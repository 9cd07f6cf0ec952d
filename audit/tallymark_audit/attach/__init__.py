"""``tallymark attach``: the audit beside Kafka clusters that are there already.

``asked`` is what the command line says, ``look`` asks the clusters (I/O), ``found`` is what they
said; from both ``plan`` decides (pure) the settings, what is refused and what is warned of;
``unclaimed`` tells which topics have no claims yet, ``going_on`` compares with the settings of an
earlier start, ``logins`` keeps passwords out of the settings. ``cli`` is the shell around them.
"""
