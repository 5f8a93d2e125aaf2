"""The executor: runs a job's tasks as processes of this machine, and ends them as Cloud Run does."""
