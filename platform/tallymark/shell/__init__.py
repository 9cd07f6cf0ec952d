"""What all commands share, also those of the audit and of the Spark jobs.

Read :mod:`.output` (what a command prints, how it ends) and :mod:`.target` (which cluster it talks
to) first; :mod:`.confirm` asks before something is lost, :mod:`.progress` shows long work.
"""
