"""The checkpoint engine: bytes are announced only when durable, and believed only when verified. See docs/checkpoints.md."""
