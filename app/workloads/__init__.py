"""What `python -m app` can train: each module has NAME, add_flags, identity and run."""
