"""The hash of the build context changes with what the image is made of, and with nothing else."""

import io
import os
import tarfile
from pathlib import Path

import pytest

from infra.context import ContextError, context_files, context_hash, pack

ROOT = Path(__file__).parents[3]


@pytest.fixture
def tree(tmp_path):
    for path, text in {
        "Dockerfile": "FROM scratch\n",
        ".dockerignore": "# allowed only\n*\n!/Dockerfile\n!/app\n!requirements/worker.txt\n**/__pycache__\n**/*.pyc\n",
        "app/__main__.py": "print(1)\n",
        "app/deep/er/module.py": "x = 1\n",
        "app/__pycache__/old.pyc": "junk",
        "app/deep/__pycache__/old.bin": "junk",
        "requirements/worker.txt": "torch\n",
        "requirements/dev.txt": "pytest\n",
        "other/app/not_ours.py": "x",
        "README.md": "x",
        ".venv/lib/huge.py": "x",
    }.items():
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return tmp_path


def test_only_what_the_ignore_file_lets_in_is_sent(tree):
    assert context_files(tree) == [
        "Dockerfile",
        "app/__main__.py",
        "app/deep/er/module.py",
        "requirements/worker.txt",
    ]


def change_content(tree):
    (tree / "app/__main__.py").write_text("print(2)\n")


def change_mode(tree):
    (tree / "app/__main__.py").chmod(0o755)


def change_name(tree):
    (tree / "app/__main__.py").rename(tree / "app/main.py")


def add_file(tree):
    (tree / "app/new.py").write_text("")


def remove_file(tree):
    (tree / "app/deep/er/module.py").unlink()


def change_dockerfile(tree):
    (tree / "Dockerfile").write_text("FROM other\n")


def point_a_link_elsewhere(tree):
    (tree / "app/link.py").symlink_to("__main__.py")


@pytest.mark.parametrize(
    "change",
    [change_content, change_mode, change_name, add_file, remove_file, change_dockerfile, point_a_link_elsewhere],
)
def test_the_hash_changes_with(tree, change):
    before = context_hash(tree)
    change(tree)
    assert context_hash(tree) != before


def touch(tree):
    os.utime(tree / "app/__main__.py", (1, 1))


def change_an_ignored_file(tree):
    (tree / "README.md").write_text("other")
    (tree / "app/__pycache__/old.pyc").write_text("other")
    (tree / "requirements/dev.txt").write_text("other")


def change_group_bits(tree):
    (tree / "app/__main__.py").chmod(0o664)


def rewrite_in_another_order(tree):
    files = {path: (tree / path).read_bytes() for path in context_files(tree)}
    for path in files:
        (tree / path).unlink()
    for path in sorted(files, reverse=True):
        (tree / path).write_bytes(files[path])


@pytest.mark.parametrize("change", [touch, change_an_ignored_file, change_group_bits, rewrite_in_another_order])
def test_the_hash_does_not_change_with(tree, change):
    before, archive = context_hash(tree), pack(tree)
    change(tree)
    assert context_hash(tree) == before
    assert pack(tree) == archive


def test_moving_bytes_from_one_file_to_its_neighbour_changes_the_hash(tree):
    (tree / "app/a.py").write_text("12")
    (tree / "app/b.py").write_text("3")
    before = context_hash(tree)
    (tree / "app/a.py").write_text("1")
    (tree / "app/b.py").write_text("23")
    assert context_hash(tree) != before


def test_the_archive_holds_exactly_the_context_without_owners_and_times(tree):
    (tree / "app/run.sh").write_text("#!/bin/sh\n")
    (tree / "app/run.sh").chmod(0o700)
    (tree / "app/link.py").symlink_to("__main__.py")
    with tarfile.open(fileobj=io.BytesIO(pack(tree))) as tar:
        members = {member.name: member for member in tar}
        content = tar.extractfile("app/__main__.py").read()
    assert sorted(members) == context_files(tree)
    assert content == b"print(1)\n"
    assert {(m.mtime, m.uid, m.gid) for m in members.values()} == {(0, 0, 0)}
    assert (members["app/run.sh"].mode, members["app/__main__.py"].mode) == (0o755, 0o644)
    assert members["app/link.py"].linkname == "__main__.py"


def test_a_folder_without_a_dockerfile_is_refused(tree):
    (tree / "Dockerfile").unlink()
    with pytest.raises(ContextError, match="Dockerfile"):
        context_files(tree)


def test_patterns_count_from_the_root_as_docker_reads_them(tree):
    (tree / ".dockerignore").write_text(
        "*.md\nrequirements/*\n!requirements/worker.txt\nother\n.venv\n**/__pycache__\n"
    )
    (tree / "app/notes.md").write_text("kept: *.md means the root only")
    assert context_files(tree) == [
        ".dockerignore",
        "Dockerfile",
        "app/__main__.py",
        "app/deep/er/module.py",
        "app/notes.md",
        "requirements/worker.txt",
    ]


def test_this_project_sends_the_worker_and_nothing_else():
    sent = context_files(ROOT)
    assert {"Dockerfile", "requirements/worker.txt"} <= set(sent)
    assert all(path.startswith("app/") or path in ("Dockerfile", "requirements/worker.txt") for path in sent)
