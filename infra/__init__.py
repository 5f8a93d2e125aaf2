"""The Pulumi program: what is declared in Google Cloud, one component a file, and the settings that decide it."""
