"""Lets `python -m ops` stand in for `gpujob` where the console script is not installed."""

from ops.cli import main

if __name__ == "__main__":
    main()
