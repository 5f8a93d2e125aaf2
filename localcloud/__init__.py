"""Google Cloud on one machine: the APIs that deploying a Cloud Run job needs, and an executor that runs the job."""

from pathlib import Path

VERSION = "0.1.0"
TREE = Path(__file__).resolve().parents[1]
"""The folder that holds this package: what a process of ours needs on its path, whatever its own folder is."""
