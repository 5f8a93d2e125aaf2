"""Where a line lies: a directory, a mounted bucket, or Cloud Storage."""
