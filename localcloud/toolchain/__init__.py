"""Finds, installs and launches what a local stack needs: Python packages, the Pulumi CLI, its plugins."""
