"""Directory trees, committed and restored by the same protocol."""
