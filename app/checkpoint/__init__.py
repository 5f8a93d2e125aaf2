"""The checkpoint engine: bytes are announced only when durable, believed only when verified (docs/checkpoints.md)."""
