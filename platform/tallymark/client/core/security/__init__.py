"""Client security: how a client logs in, and which brokers it trusts.

Read :mod:`.security` first (the settings and their checks). :mod:`.properties`,
:mod:`.deployment` and :mod:`.http` make these settings from other forms.
"""
