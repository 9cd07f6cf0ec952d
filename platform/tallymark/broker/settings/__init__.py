"""The settings of brokers, topics, groups and loggers: names, types, defaults, checks. Pure.

Read :mod:`.broker` and :mod:`.topic_configs` first; :mod:`.config_describe` and
:mod:`.config_alter` serve the config APIs.
"""
