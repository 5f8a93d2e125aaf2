"""The table of values in docs/checkpoints.md is the code's: every mark that is written or read stands there."""

import re
from pathlib import Path

from app.checkpoint.state import decoding, encoding, plain

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/checkpoints.md").read_text()


def test_every_mark_of_the_tree_is_in_the_documents_table_and_no_other():
    told = {mark for row in PAGE.splitlines() if row.startswith("| `{") for mark in re.findall(r'"(\$\w+)"', row)}
    assert told == set(decoding._DECODERS)


def test_limits_and_factories_are_as_the_documents_say():
    assert f"more than {encoding.MAX_DEPTH} deep" in PAGE
    assert f"more than {plain.INT_BITS} bits" in PAGE
    assert all(f"`{name}`" in PAGE for name in plain.FACTORIES)
