"""The outputs of a stack: what is read, what is refused, and what the message says to do."""

import json
from pathlib import Path

import pytest

from ops.errors import MisconfiguredError
from ops.stack import parse_outputs, read_outputs

EXPORTS = {
    "project": "p",
    "region": "europe-west4",
    "jobName": "job",
    "jobId": "projects/p/locations/europe-west4/jobs/job",
    "checkpointUrl": "gs://bucket/job-task-0",
    "endpoints": {},
    "exposureGpuHours": 48,
    "exposureUsd": 50.2,
}


def endpoints(base: str) -> dict[str, str]:
    return {"run": f"{base}/run/v2/", "logging": f"{base}/logging/v2/", "storage": f"{base}/storage/v1/"}


def test_without_endpoints_the_stack_is_in_the_real_cloud():
    outputs = parse_outputs(EXPORTS, "dev")
    assert (outputs.job_name, outputs.is_local, outputs.exposure_gpu_hours) == ("job", False, 48.0)


@pytest.mark.parametrize("host", ["127.0.0.1:8790", "localhost:8790", "[::1]:8790", "127.9.9.9"])
def test_plain_http_is_accepted_on_this_machine(host: str):
    assert parse_outputs({**EXPORTS, "endpoints": endpoints(f"http://{host}")}, "local").is_local


@pytest.mark.parametrize(
    "base", ["http://10.0.0.7:8790", "http://run.example.com", "ftp://127.0.0.1", "http://127.0.0.1.example.com"]
)
def test_plain_http_to_any_other_machine_is_refused(base: str):
    with pytest.raises(MisconfiguredError, match="neither https nor on this machine"):
        parse_outputs({**EXPORTS, "endpoints": endpoints(base)}, "local")


def test_https_endpoints_are_not_local():
    assert not parse_outputs({**EXPORTS, "endpoints": endpoints("https://restricted.example.com")}, "dev").is_local


def test_endpoints_for_half_of_the_services_are_refused():
    with pytest.raises(MisconfiguredError, match="none for logging, storage"):
        parse_outputs({**EXPORTS, "endpoints": {"run": "http://127.0.0.1:1/run/v2/"}}, "local")


def test_a_stack_without_outputs_is_told_from_one_of_another_program():
    with pytest.raises(MisconfiguredError, match=r"Stack dev has no outputs.*pulumi up"):
        parse_outputs({}, "dev")
    with pytest.raises(MisconfiguredError, match="does not export jobName, jobId"):
        parse_outputs({"project": "p", "region": "r", "checkpointUrl": "gs://b/j-task-0"}, "dev")


@pytest.fixture
def pulumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Puts a `pulumi` on PATH that notes its arguments, and prints and exits as told."""
    (tmp_path / "Pulumi.yaml").write_text("name: gpujob\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPUJOB_STACK", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    def says(out: str = "", err: str = "", code: int = 0) -> Path:
        (tmp_path / "out").write_text(out)
        (tmp_path / "err").write_text(err)
        script = tmp_path / "pulumi"
        script.write_text(
            f'#!/bin/sh\necho "$@" > {tmp_path}/asked\n'
            f"/bin/cat {tmp_path}/out\n/bin/cat {tmp_path}/err >&2\nexit {code}\n"
        )
        script.chmod(0o755)
        return tmp_path / "asked"

    return says


def test_the_stack_comes_from_the_option_then_the_environment_then_pulumi(pulumi, monkeypatch: pytest.MonkeyPatch):
    asked = pulumi(json.dumps(EXPORTS))
    read_outputs(None)
    assert asked.read_text().strip() == "stack output --json --non-interactive"
    monkeypatch.setenv("GPUJOB_STACK", "local")
    read_outputs(None)
    assert asked.read_text().strip().endswith("--stack local")
    read_outputs("dev")
    assert asked.read_text().strip().endswith("--stack dev")


@pytest.mark.parametrize(
    ("err", "expected"),
    [
        ("error: no stack named 'dev' found", "no stack dev in the backend"),
        ("error: no stack selected; please use `pulumi stack select`", "No stack is selected"),
        (
            "error: passphrase must be set with PULUMI_CONFIG_PASSPHRASE",
            "cannot decrypt stack dev",
        ),
        ("error: PULUMI_ACCESS_TOKEN must be set for login during non-interactive CLI sessions", "not logged in"),
        ("error: something new", "failed: error: something new"),
    ],
)
def test_what_pulumi_refuses_is_passed_on_with_a_way_out(pulumi, err: str, expected: str):
    pulumi(err=err, code=255)
    with pytest.raises(MisconfiguredError, match=expected) as caught:
        read_outputs("dev")
    assert "Nothing was changed" in str(caught.value)


def test_without_pulumi_the_message_names_the_environment_of_the_local_stack(pulumi):
    with pytest.raises(MisconfiguredError, match=r"No `pulumi` on PATH.*gpujob local env"):
        read_outputs("local")


LOCAL_BACKEND = "file:///somewhere/build/pulumi-state"


@pytest.mark.parametrize(
    ("backend", "stack", "advice"),
    [
        (LOCAL_BACKEND, "dev", {"use a fresh one"}),
        (LOCAL_BACKEND, "local", set()),
        ("gs://team-state", "dev", {"gpujob local env"}),
        ("file:///srv/state", "dev", {"gpujob local env"}),
    ],
)
def test_a_shell_for_the_local_cloud_is_not_told_to_become_one(pulumi, monkeypatch, backend, stack, advice):
    monkeypatch.setenv("PULUMI_BACKEND_URL", backend)
    pulumi(err=f"error: no stack named '{stack}' found", code=255)
    with pytest.raises(MisconfiguredError) as caught:
        read_outputs(stack)
    assert {each for each in ("use a fresh one", "gpujob local env") if each in str(caught.value)} == advice
