"""Cloud Logging: entries on disk, their filter language, and what container output becomes."""
