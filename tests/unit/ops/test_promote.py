"""Promotion changes one line of one file, shows what it changes, and takes nothing that could mean something else."""

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import ops.cli
import ops.promote
from ops.errors import MisconfiguredError, RefusedError
from ops.promote import promote, with_image

OLD, NEW = (f"europe-west4-docker.pkg.dev/dev-project/gpujob/worker@sha256:{letter * 64}" for letter in "ab")
FILE = f"""\
# Production. Every word of this stays.
encryptionsalt: v1:abc=
config:
  gcp:project: prod-project   # asked for in March
  # the digest that dev has proved
  gpujob:image: {OLD}  # since 3 May
  gpujob:labels:
    team: "research"

  gpujob:workloadArgs: [--steps, "60"]
secretsprovider: gcpkms://x
"""


@pytest.fixture
def prod(tmp_path: Path) -> Path:
    file = tmp_path / "Pulumi.prod.yaml"
    file.write_text(FILE)
    return file


def test_only_the_images_line_changes_and_its_comment_stays(prod: Path):
    assert promote(NEW, "dev", prod, lambda _: None)
    assert prod.read_text() == FILE.replace(OLD, NEW)


def test_before_and_after_are_shown_and_what_to_do_next(prod: Path):
    said: list[str] = []
    promote(NEW, "dev", prod, said.append)
    assert said[:3] == ["Pulumi.prod.yaml, gpujob:image", f"  before: {OLD}", f"  after:  {NEW}"]
    tag = "europe-west4-docker.pkg.dev/dev-project/gpujob/worker:promoted-prod"
    assert f"gcloud artifacts docker tags add {NEW} {tag}" in said[3]
    assert "pulumi preview -s prod" in said[3]
    assert "gpujob:imageReaders" in said[3]


def test_the_tag_that_is_proposed_is_one_that_the_repository_keeps():
    from infra.registry import PROMOTED_PREFIX

    assert PROMOTED_PREFIX == "promoted-"


def test_twice_is_once(prod: Path):
    promote(NEW, "dev", prod, lambda _: None)
    before, said = prod.read_bytes(), []
    assert not promote(NEW, "dev", prod, said.append)
    assert prod.read_bytes() == before
    assert said[-1] == "Nothing to change."


@pytest.mark.parametrize("image", ["", "worker", OLD.split("@")[0] + ":latest", OLD.split("@")[0] + "@sha256:abc"])
def test_what_is_not_known_by_digest_is_refused_and_nothing_changed(prod: Path, image: str):
    with pytest.raises(RefusedError, match=r"not known by digest(?s:.*)Pulumi.prod.yaml was not changed"):
        promote(image, "dev", prod, lambda _: None)
    assert prod.read_text() == FILE


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("config:\n  a: 1\n", f"config:\n  a: 1\n  gpujob:image: {NEW}\n"),
        ("config:\n    a: 1", f"config:\n    a: 1\n    gpujob:image: {NEW}\n"),
        ("config:\n  a:\n    - b\n# end\nx: y\n", f"config:\n  a:\n    - b\n  gpujob:image: {NEW}\n# end\nx: y\n"),
        ('config:\n  gpujob:image: ""\n', f"config:\n  gpujob:image: {NEW}\n"),
        ('config: # all\n  "gpujob:image": "x"\n', f"config: # all\n  gpujob:image: {NEW}\n"),
    ],
)
def test_a_stack_that_pinned_nothing_yet_gets_the_line_as_the_last_of_its_settings(text: str, expected: str):
    assert with_image(text, NEW) == expected
    assert yaml.safe_load(with_image(text, NEW))["config"]["gpujob:image"] == NEW


@pytest.mark.parametrize(
    "text", ["config: {gcp:project: p}\n", "config:\n  gpujob:image:\n    x\n", "config:\n  gpujob:image: >-\n    x\n"]
)
def test_a_file_that_cannot_be_edited_by_line_is_left_as_it_was(prod: Path, text: str):
    prod.write_text(text)
    with pytest.raises(MisconfiguredError, match=r"left as it was(?s:.*)pulumi config set gpujob:image"):
        promote(NEW, "dev", prod, lambda _: None)
    assert prod.read_text() == text


def test_a_stack_without_a_file_is_named(tmp_path: Path):
    with pytest.raises(MisconfiguredError, match=r"Pulumi.prod.yaml cannot be read(?s:.*)Nothing was changed"):
        promote(NEW, "dev", tmp_path / "Pulumi.prod.yaml", lambda _: None)


def test_the_command_reads_the_one_stack_and_writes_the_other(prod: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[str, str]] = []
    monkeypatch.setattr(ops.promote, "tree", lambda: prod.parent)
    monkeypatch.setattr(ops.promote, "read_output", lambda stack, name: asked.append((stack, name)) or NEW)
    done = CliRunner().invoke(ops.cli.app, ["promote", "us/gpujob/dev", "us/gpujob/prod"])
    assert (done.exit_code, asked) == (0, [("us/gpujob/dev", "image")])
    assert prod.read_text() == FILE.replace(OLD, NEW)
