"""Which gcsfuse is used, and what a machine is told that cannot have it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from localcloud.toolchain import gcsfuse
from localcloud.toolchain.steps import SetupError


@pytest.fixture(autouse=True)
def _nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("GPUJOB_CACHE", str(tmp_path / "cache"))


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_an_installed_one_comes_before_the_cached_one(tmp_path):
    assert gcsfuse.find_gcsfuse() is None
    cached = program(gcsfuse.cached_gcsfuse())
    assert gcsfuse.find_gcsfuse() == cached
    installed = program(tmp_path / "bin/gcsfuse")
    assert gcsfuse.find_gcsfuse() == installed


def test_without_a_device_nothing_is_installed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gcsfuse, "DEVICE", tmp_path / "fuse")
    monkeypatch.setattr(gcsfuse, "run", lambda *_args, **_options: pytest.fail("nothing may be run"))
    gcsfuse.install_gcsfuse(tmp_path)
    assert "nothing can be mounted here" in capsys.readouterr().out
    assert "--device" in (gcsfuse.why_no_mount() or "")


def test_what_cannot_be_built_is_told_and_ends_nothing(tmp_path, monkeypatch, capsys):
    program(tmp_path / "bin/fusermount3")
    monkeypatch.setattr(gcsfuse, "DEVICE", program(tmp_path / "fuse"))

    def no_go(*_args: object, **_options: object) -> None:
        raise SetupError("go was not found")

    monkeypatch.setattr(gcsfuse, "run", no_go)
    gcsfuse.install_gcsfuse(tmp_path)
    assert "will be skipped: go was not found" in capsys.readouterr().out
    assert "make setup" in (gcsfuse.why_no_mount() or "")
    assert not list(gcsfuse.cached_gcsfuse().parent.iterdir())


def test_a_user_who_is_not_root_is_told_the_package(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gcsfuse, "DEVICE", program(tmp_path / "fuse"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    gcsfuse.install_gcsfuse(tmp_path)
    assert "install the package fuse3" in capsys.readouterr().out
