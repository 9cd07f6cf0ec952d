"""The settings of brokers, topics, groups and loggers: names, types, defaults, checks. Pure.

Read :mod:`.broker` and :mod:`.topic_configs` first, then the room :mod:`.fields`: every setting of
a broker. :mod:`.config_describe` and :mod:`.config_alter` serve the config APIs.
"""
