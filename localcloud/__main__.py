"""`python -m localcloud ...`."""

from localcloud.cli import app

app(prog_name="python -m localcloud")
