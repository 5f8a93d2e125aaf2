"""A state as JSON and blobs, and back."""
