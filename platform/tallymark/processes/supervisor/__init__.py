"""Keeping the processes of the embedded stack alive: ``tallymark up``.

Read ``plan`` first (which processes a deployment has), then ``state`` (when each is started,
restarted, held or given up: pure), then ``run`` (the shell that spawns and watches them) and
``control`` (how ``tallymark status`` and the demo talk to it); ``ending`` is ``tallymark down``.
"""
