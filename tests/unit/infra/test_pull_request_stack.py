"""A pull request's stack is dev's under names of its own, and nothing that only dev can decrypt goes into it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from infra.pull_request_stack import main, stack_file
from infra.stack_file import StackFileError, settings_in

TREE = Path(__file__).parents[3]
DEV = {"gcp:project": "acme-dev", "gcp:region": "europe-west4", "gpujob:disposable": False}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "Pulumi.dev.yaml").write_text(
        yaml.safe_dump({"config": DEV, "encryptedkey": "abc", "secretsprovider": "gcpkms://dev"})
    )
    return tmp_path


def test_it_is_dev_with_names_of_its_own_disposable_and_silent(folder: Path) -> None:
    settings = settings_in(stack_file(folder, "12", "gcpkms://key"))
    dev = settings_in(folder / "Pulumi.dev.yaml")
    assert (settings.project, settings.region) == (dev.project, dev.region)
    assert (settings.disposable, settings.observability) == (True, False)
    for name in ("job", "account", "build_account", "bucket", "source_bucket", "repository"):
        assert getattr(settings, name) == f"{getattr(dev, name)}-pr-12"


def test_it_may_be_in_a_project_of_its_own_and_so_are_its_buckets_and_accounts(folder: Path) -> None:
    settings = settings_in(stack_file(folder, "12", project="acme-requests"))
    assert settings.project == "acme-requests"
    assert settings.bucket == "gpu-checkpoints-acme-requests-pr-12"
    assert settings_in(stack_file(folder, "12", project="")).project == "acme-dev"


def test_its_secrets_are_sealed_by_the_key_and_devs_own_data_key_is_left_out(folder: Path) -> None:
    content = yaml.safe_load(stack_file(folder, "12", "gcpkms://key").read_text())
    assert set(content) == {"config", "secretsprovider"}
    assert content["secretsprovider"] == "gcpkms://key"


def test_the_highest_number_still_makes_names_that_google_takes(folder: Path) -> None:
    assert settings_in(stack_file(folder, "999999999")).name_suffix == "pr-999999999"


@pytest.mark.parametrize("number", ["", "0", "012", "1234567890", "12; rm -rf /", "../prod", "12\n"])
def test_what_is_no_number_names_no_file(folder: Path, number: str) -> None:
    with pytest.raises(StackFileError, match="is not the number of a pull request"):
        stack_file(folder, number)
    assert [file.name for file in folder.iterdir()] == ["Pulumi.dev.yaml"]


def test_an_encrypted_value_of_dev_is_refused(folder: Path) -> None:
    config = {**DEV, "gcp:accessToken": {"secure": "v1:abc"}}
    (folder / "Pulumi.dev.yaml").write_text(yaml.safe_dump({"config": config}))
    with pytest.raises(StackFileError, match="holds encrypted values"):
        stack_file(folder, "12")


def test_the_command_says_what_it_wrote_or_why_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert main(["12"]) == 0
    assert capsys.readouterr().out == "wrote Pulumi.pr-12.yaml\n"
    assert main(["x"]) == 2
    assert "'x' is not the number" in capsys.readouterr().err


def test_such_a_file_is_never_committed() -> None:
    assert "/Pulumi.pr-*.yaml" in (TREE / ".gitignore").read_text().splitlines()
