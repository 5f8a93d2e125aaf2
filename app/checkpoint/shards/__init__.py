"""The bytes of a checkpoint: how they lie in files, and how they are written, read and summed."""
