"""The deployed program under the real engine: failed builds, protection, rename, and the two steps of a teardown."""

import shutil
from pathlib import Path

import pytest

from localcloud.testing import running_cloud
from tests.local.stack import support
from tests.local.stack.support import LocalStack

ROOT = Path(__file__).parents[2]
PROGRAM = (
    "__main__.py",
    "Pulumi.yaml",
    "Pulumi.local.yaml",
    "Dockerfile",
    ".dockerignore",
    "infra",
    "app",
    "requirements",
)

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.xdist_group("program-on-the-engine")]


@pytest.fixture(scope="module")
def stack_of_a_copy(tmp_path_factory):
    """A stack of a copy of the program, which a test may break."""
    folder = tmp_path_factory.mktemp("program")
    tree = folder / "tree"
    tree.mkdir()
    for name in PROGRAM:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, tree / name)
    with pytest.MonkeyPatch.context() as patch, running_cloud(folder / "cloud") as cloud:
        patch.setattr(support, "TREE", tree)
        yield LocalStack(cloud, folder)


@pytest.fixture
def stack(stack_of_a_copy):
    """Deployed; each test leaves settings and files as it found them, though perhaps destroyed."""
    if not stack_of_a_copy.inventory():
        assert stack_of_a_copy.changes("up") == {"create": 42}
    return stack_of_a_copy


def image(stack: LocalStack) -> str:
    return stack.job().json()["template"]["template"]["containers"][0]["image"]


def test_a_changed_file_of_the_context_builds_and_updates_the_job_and_nothing_else(stack):
    before = image(stack)
    (support.TREE / "app" / "new.py").write_text("x = 1\n")
    assert stack.changed_urns("up") == [
        ("update", "pulumi-python:dynamic/gpujob:BuiltImage"),
        ("update", "gcp:cloudrunv2/job:Job"),
    ]
    assert image(stack) != before
    assert image(stack) == stack.output("image")
    (support.TREE / "app" / "new.py").unlink()
    stack.changes("up")


def test_a_changed_file_outside_the_context_changes_nothing(stack):
    (support.TREE / "README.md").write_text("other\n")
    assert stack.changes("up") == {}


def test_a_failed_build_shows_the_end_of_its_log_and_leaves_the_job_alone(stack):
    before = image(stack)
    dockerfile = support.TREE / "Dockerfile"
    good = dockerfile.read_text()
    dockerfile.write_text(good + "COPY nowhere/ nowhere/\n")
    said = stack.on_stack("up", "--yes", "--skip-preview", expect=1)
    for words in ("ended as FAILURE", "Its last lines", "COPY nowhere/ nowhere/", "The job was not changed"):
        assert words in said
    assert "pulumi/dynamic/__main__.py" not in said, "a traceback buries the message"
    assert image(stack) == before
    dockerfile.write_text(good)
    assert stack.changes("up") == {}


def test_where_it_is_not_disposable_a_replacement_is_refused_before_anything_is_touched(stack):
    stack.set("gpujob:disposable", False)
    stack.on_stack("up", "--yes", "--skip-preview")
    before = stack.inventory()
    for key, value in (("gcp:region", "europe-west1"), ("gpujob:bucketName", "another-bucket-of-ours")):
        was = support.yaml.safe_load(stack.config.read_text())["config"].get(key, "")
        stack.set(key, value)
        said = stack.on_stack("up", "--yes", expect=1)
        assert "marked for protection" in said
        stack.set(key, was)
    assert stack.inventory() == before
    stack.set("gpujob:disposable", True)
    stack.changes("up")


def test_a_protected_stack_goes_in_two_steps(stack):
    stack.set("gpujob:disposable", False)
    stack.on_stack("up", "--yes", "--skip-preview")
    assert "protected" in stack.on_stack("destroy", "--yes", expect=1)
    assert stack.inventory()
    stack.set("gpujob:disposable", True)
    stack.on_stack("up", "--yes", "--skip-preview")
    stack.on_stack("destroy", "--yes", "--skip-preview")
    assert stack.inventory() == []


def test_renaming_a_stack_replaces_nothing(stack):
    config = ["--config-file", str(stack.config)]
    stack.pulumi("stack", "rename", "another", "--stack", "local")
    stack.pulumi("preview", "--stack", "another", *config, "--expect-no-changes")
    stack.pulumi("stack", "rename", "local", "--stack", "another")
