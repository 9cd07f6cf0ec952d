"""What the audit says about a drill, when it first said it, and what it took back.

Read :mod:`.found` first.
"""
