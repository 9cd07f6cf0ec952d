"""The proof: the drill and the demo, which plant losses and check that the audit finds them.

Read :mod:`.drill.run` and :mod:`.demo.run`, which are the stories.
"""
