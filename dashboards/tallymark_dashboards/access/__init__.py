"""Who asks, and what they may do: users, roles, and the proof that a form is ours.

Read ``user`` first. No page decides about rights itself: it asks the :class:`~.user.User`.
"""
