"""The rehearsal: the whole life of a job, with two interruptions, on this machine; `gpujob rehearse` runs it."""
