"""Which Pulumi CLI a local stack gets, and what is said when there is none to be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from localcloud.toolchain import pulumi_cli
from localcloud.toolchain.steps import SetupError


def executable(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with an empty cache and nothing on PATH."""
    monkeypatch.setenv("GPUJOB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def test_the_cli_on_path_is_used_when_it_is_new_enough(machine: Path) -> None:
    ours = executable(machine / "bin" / "pulumi", "echo v3.280.0")
    assert pulumi_cli.find_pulumi() == ours


def test_an_older_cli_on_path_gives_way_to_the_cached_one(machine: Path) -> None:
    executable(machine / "bin" / "pulumi", "echo v3.100.0")
    cached = executable(pulumi_cli.cached_pulumi(), "echo v3.274.1")
    assert pulumi_cli.find_pulumi() == cached


@pytest.mark.parametrize("script", ["exit 1", "echo unheard-of"])
def test_a_broken_cli_on_path_is_not_used(machine: Path, script: str) -> None:
    executable(machine / "bin" / "pulumi", script)
    assert pulumi_cli.find_pulumi() is None


def test_without_release_and_go_the_error_names_both_attempts_and_the_way_out(machine: Path) -> None:
    no_sdk = executable(machine / "python", "echo 'URLError: no such host' >&2; exit 1")
    with pytest.raises(SetupError) as raised:
        pulumi_cli.install_pulumi(no_sdk, machine / "logs")
    message = str(raised.value)
    assert "official release: URLError: no such host" in message
    assert "build with Go: go was not found" in message
    assert "run `make setup` again" in message
    assert not pulumi_cli.cached_pulumi().exists()


def test_a_build_that_fails_leaves_no_binary_behind(machine: Path) -> None:
    executable(machine / "bin" / "go", "echo partly > /dev/null; exit 2")
    no_sdk = executable(machine / "python", "exit 1")
    with pytest.raises(SetupError, match="ended with 2"):
        pulumi_cli.install_pulumi(no_sdk, machine / "logs")
    assert pulumi_cli.find_pulumi() is None


def test_the_module_file_pins_the_version_that_is_asked_for() -> None:
    module_file = (Path(pulumi_cli.__file__).parent / "pulumi" / "go.mod").read_text()
    for module in ("pkg", "sdk"):
        wanted = f"github.com/pulumi/pulumi/{module}/v3 => github.com/pulumi/pulumi/{module}/v3 v{pulumi_cli.VERSION}"
        assert wanted in module_file


def test_progress_tells_downloads_from_compiled_packages() -> None:
    log = "go: downloading a v1\ngo: downloading b v1\na/x\nb/y\nb/z\n"
    assert pulumi_cli._how_far(log).startswith("2 modules downloaded, 3 of about")
