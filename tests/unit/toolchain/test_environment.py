"""The environment for local stacks: complete, and confined to the folder it is given."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from localcloud.toolchain import environment, google_provider, pulumi_cli
from localcloud.toolchain.steps import SetupError


@pytest.fixture
def pulumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A CLI built from source: alone in its folder."""
    monkeypatch.setenv("GPUJOB_CACHE", str(tmp_path / "cache"))
    binary = tmp_path / "pulumi-cli" / "pulumi"
    binary.parent.mkdir()
    binary.write_text("#!/bin/sh\necho v3.274.1\n")
    binary.chmod(0o755)
    monkeypatch.setenv("PATH", f"{binary.parent}:/usr/bin:/bin")
    return binary


def test_the_engine_keeps_its_state_below_the_given_folder(tmp_path: Path, pulumi: Path) -> None:
    variables = environment.local_environment(tmp_path / "tree", 4711, home=tmp_path / "home")
    assert variables["PULUMI_BACKEND_URL"] == f"file://{tmp_path}/home/pulumi-state"
    assert (tmp_path / "home" / "pulumi-state").is_dir()
    assert variables["PULUMI_HOME"].startswith(f"{tmp_path}/home")
    assert variables["STORAGE_EMULATOR_HOST"] == "http://127.0.0.1:4711"


def test_a_bare_cli_gets_language_host_launcher_and_provider(tmp_path: Path, pulumi: Path) -> None:
    folder = environment.write_executables(tmp_path / "bin", pulumi)
    names = {entry.name for entry in folder.iterdir()}
    assert {"pulumi-resource-gcp", "pulumi-language-python", "pulumi-resource-pulumi-python"} <= names
    assert google_provider.provider_in_use(folder) == "localcloud.provider"


def test_a_bare_cli_finds_its_hosts_beside_itself(tmp_path: Path, pulumi: Path) -> None:
    for _ in range(2):
        folder = environment.write_executables(tmp_path / "bin", pulumi)
        assert (folder / "pulumi").samefile(pulumi)
        assert not (folder / "pulumi").is_symlink()
    assert not [entry.name for entry in folder.iterdir() if entry.name.startswith(".pulumi")]


def test_the_link_to_a_cli_is_not_taken_for_an_installed_one(
    tmp_path: Path, pulumi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a shell that has loaded the environment the launchers come first on PATH."""
    folder = environment.write_executables(tmp_path / "bin", pulumi)
    monkeypatch.setenv("PATH", f"{folder}:{pulumi.parent}:/usr/bin:/bin")
    assert pulumi_cli.find_pulumi() == pulumi
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    assert pulumi_cli.find_pulumi() is None


def test_the_link_follows_when_another_cli_is_installed(tmp_path: Path, pulumi: Path) -> None:
    folder = environment.write_executables(tmp_path / "bin", pulumi)
    newer = tmp_path / "newer" / "pulumi"
    newer.parent.mkdir()
    newer.write_text("#!/bin/sh\necho v3.280.0\n")
    environment.write_executables(folder, newer)
    assert (folder / "pulumi").samefile(newer)
    other = tmp_path / "official" / "pulumi"
    other.parent.mkdir()
    other.touch()
    (other.parent / "pulumi-language-python").touch()
    environment.write_executables(folder, other)
    assert not (folder / "pulumi").exists()


def test_where_no_link_can_be_made_the_cli_stays_where_it_is(
    tmp_path: Path, pulumi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pulumi").write_text("an older one")
    monkeypatch.setattr(os, "link", refused)
    variables = environment.local_environment(tmp_path, 4711)
    folder = environment.write_executables(tmp_path / "bin", pulumi)
    assert not (folder / "pulumi").exists()
    assert str(pulumi.parent) in variables["PATH"].split(os.pathsep)


def test_an_official_cli_keeps_its_own_language_host(tmp_path: Path, pulumi: Path) -> None:
    (pulumi.parent / "pulumi-language-python").touch()
    folder = environment.write_executables(tmp_path / "bin", pulumi)
    assert not (folder / "pulumi-language-python").exists()
    assert (folder / "pulumi-resource-gcp").exists()


def test_googles_provider_is_preferred_where_it_is_installed(
    tmp_path: Path, pulumi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = tmp_path / "cache" / "pulumi-home" / "plugins" / f"resource-gcp-v{google_provider.VERSION}"
    plugin.mkdir(parents=True)
    (plugin / google_provider.EXECUTABLE).touch()
    folder = environment.write_executables(tmp_path / "bin", pulumi)
    assert google_provider.provider_in_use(folder) == f"google {google_provider.VERSION}"

    monkeypatch.setenv("GPUJOB_PROVIDER", "python")
    folder = environment.write_executables(tmp_path / "bin", pulumi)
    assert google_provider.provider_in_use(folder) == "localcloud.provider"


def test_without_a_cli_the_error_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUJOB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError, match="make setup"):
        environment.local_environment(tmp_path, 4711)
