"""A manifest says of itself whether it is whole, cut, or not what was written."""

from __future__ import annotations

import json

import pytest

from app.checkpoint.manifest import Damaged, Head, Manifest, Shard, Torn, Unsupported


@pytest.fixture
def manifest() -> Manifest:
    head = Head(
        name="000000000120-e0003-5f3c1e",
        step=120,
        attempt="e0003-5f3c1e",
        created_at="2026-01-01T00:00:00+00:00",
        identity={"workload": "test"},
        environment={},
        resumed_from=None,
        checked="size",
        shards=(Shard("shards/x/000.safetensors", 1024, "0badcafe"),),
    )
    return Manifest(head, b'{"tree":{},"tensors":[]}')


def test_it_decodes_to_what_was_encoded(manifest):
    assert Manifest.decode(manifest.encode()) == manifest


def test_it_is_three_lines_of_json(manifest):
    seal, head, table = (json.loads(line) for line in manifest.encode().splitlines())
    assert seal["format"] == 2
    assert head["shards"] == [{"name": "shards/x/000.safetensors", "size_bytes": 1024, "crc32c": "0badcafe"}]
    assert table == {"tree": {}, "tensors": []}


def test_cut_anywhere_it_is_torn(manifest):
    content = manifest.encode()
    for length in range(len(content)):
        with pytest.raises(Torn):
            Manifest.decode(content[:length])


def test_a_flipped_bit_anywhere_is_never_accepted(manifest):
    content = manifest.encode()
    for at in range(len(content)):
        for bit in range(8):
            changed = content[:at] + bytes([content[at] ^ (1 << bit)]) + content[at + 1 :]
            with pytest.raises((Damaged, Torn, Unsupported)):
                Manifest.decode(changed)


@pytest.mark.parametrize("content", [b"\x80\x04K\x01.", b"hello\n", b"{}\n", b"null\n", b"[]\n", b"\xff" * 400])
def test_what_was_never_a_manifest_is_damaged(content):
    with pytest.raises(Damaged):
        Manifest.decode(content)


def test_more_than_was_promised_is_damaged(manifest):
    with pytest.raises(Damaged):
        Manifest.decode(manifest.encode() + b"\n")


@pytest.mark.parametrize("field", ["format", "head_bytes", "table_bytes", "crc32c"])
def test_a_seal_with_a_field_of_another_type_is_damaged(manifest, field):
    """Also where it would be the right number: `"format":"2"` is no manifest of ours."""
    line, rest = manifest.encode().split(b"\n", 1)
    seal = json.loads(line)
    right = seal[field]
    others = [[right], None, {}, *([str(right), float(right)] if isinstance(right, int) else [int(right, 16)])]
    for other in others:
        changed = json.dumps(seal | {field: other}, separators=(",", ":")).encode()
        with pytest.raises(Damaged):
            Manifest.decode(changed + b"\n" + rest)
