"""Who may do what: users and tokens, their grants, and the registry as one of them sees it.

Read :mod:`.grants` (rights on subjects, pure) and :mod:`.visible` (what a principal sees of a
catalog, pure), then :mod:`.authorized`: the registry's facade for one principal, which every route
calls. :mod:`.access_file` keeps users, tokens and roles; :mod:`.log_in` finds the principal of a
request.
"""
