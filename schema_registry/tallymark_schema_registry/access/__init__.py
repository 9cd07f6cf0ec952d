"""Who may do what: users and tokens, their grants, and the registry as one of them sees it.

Read :mod:`.grants` (rights on subjects, pure) and :mod:`.visible` (the part of a catalog that a
principal may read, pure), then :mod:`.authorized`: the registry for one principal, which every
route calls. :mod:`.access_file` keeps users, tokens and roles (:mod:`.document` is what the file
holds); :mod:`.log_in` finds the principal of a request, :mod:`.web_tokens` that of an issuer's
token.
"""
