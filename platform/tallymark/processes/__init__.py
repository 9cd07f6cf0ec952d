"""Processes as this project runs them: started, watched, logged, ended.

Read :mod:`.process` (what a process of ours does first) and :mod:`.child_process` first, then
:mod:`.server_process` (a server as a child) with :mod:`.zookeeper_server` and :mod:`.apache_kafka`.
:mod:`.supervisor` runs a whole deployment; :mod:`.checks` looks for what is wrong with one.
"""
