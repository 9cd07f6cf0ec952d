"""Writing topics for commands: what became of each message (:mod:`.tally`), lines as messages
(:mod:`.line_messages`), a rate held (:mod:`.pace`, pure), the options that they share
(:mod:`.options`)."""
