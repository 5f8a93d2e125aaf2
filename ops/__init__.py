"""The `gpujob` command: start, watch, read and cancel executions of the job that a stack declares."""
