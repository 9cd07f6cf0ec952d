"""Processes as this project runs them: started, watched, logged, ended.

Read :mod:`.process` (what a process of ours does first) and :mod:`.child_process` first;
:mod:`.supervisor` runs a whole deployment.
"""
