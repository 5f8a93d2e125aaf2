"""Every configuration key, one file a concern; infra/settings.py puts them together."""
