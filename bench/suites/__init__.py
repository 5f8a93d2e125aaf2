"""The suites: each measures one thing in a process of its own, and returns rows."""
