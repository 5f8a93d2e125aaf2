"""The server itself: start, stop, what it says when it cannot, what survives it, and what it records."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from localcloud import TREE, client
from localcloud.settings import Settings
from localcloud.testing import running_cloud

JOBS = "/v2/projects/local-project/locations/europe-west4/jobs"
SMALL = {"template": {"template": {"containers": [{"image": "example.com/any/image:1"}]}}}


def _command(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "localcloud", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=TREE)


@pytest.mark.slow
def test_start_status_and_stop_as_a_person_types_them(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    started = _command("start", "--port", "0", "--state", state)
    assert started.returncode == 0, started.stderr
    port = json.loads((tmp_path / "state/server.json").read_text())["port"]
    try:
        assert f"http://127.0.0.1:{port}" in started.stdout
        shown = json.loads(_command("status", "--json", "--port", str(port)).stdout)
        assert (shown["port"], shown["state_dir"], shown["running_executions"]) == (port, state, [])
        again = _command("start", "--port", str(port), "--state", state)
        assert (again.returncode, "is already running" in again.stdout) == (0, True)
        nothing = _command("preempt", "--port", str(port))
        assert nothing.returncode == 3
        assert "Nothing was signalled" in nothing.stderr
    finally:
        stopped = _command("stop", "--port", str(port))
    assert stopped.stdout == "local cloud stopped\n"
    assert not (tmp_path / "state/server.json").exists()
    gone = _command("status", "--port", str(port))
    assert gone.returncode == 4
    assert f"The local cloud does not answer on 127.0.0.1:{port}. Nothing was changed" in gone.stderr
    assert f"`gpujob local start --port {port}`" in gone.stderr
    assert "none is running" in _command("stop", "--port", str(port)).stdout


def test_a_taken_port_is_named_and_nothing_is_started(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        refused = _command("start", "--port", str(port), "--state", str(tmp_path / "state"))
    assert refused.returncode == 3
    assert refused.stderr.startswith(f"local cloud: Port {port} on 127.0.0.1 is taken by another program")
    assert "choose another port with --port" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_what_is_no_local_cloud_is_told_from_one_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(client.NotRunningError, match="did not answer GET status within 0 s; it may still do it"):
            client.ask(port, "GET", "status", timeout_s=0.2)
    with pytest.raises(client.NotRunningError, match="Nothing was changed"):
        client.ask(port, "GET", "status")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        threading.Thread(target=lambda: other.accept()[0].sendall(b"220 mail.example.com\r\n"), daemon=True).start()
        with pytest.raises(client.LocalCloudError, match="another program") as told:
            client.ask(port, "GET", "status")
    assert not isinstance(told.value, client.NotRunningError)


def test_a_state_directory_has_one_server(tmp_path: Path) -> None:
    with running_cloud(tmp_path / "state") as cloud:
        with pytest.raises(client.LocalCloudError, match=f"already serves .*state, on port {cloud.port}, not 1"):
            client.start(Settings(state_dir=tmp_path / "state", port=1))
        (tmp_path / "state/server.json").unlink()
        with pytest.raises(client.LocalCloudError, match="Another local cloud already serves"):
            client.start(Settings(state_dir=tmp_path / "state", port=0))


def test_only_the_loopback_address_is_bound(cloud: Any) -> None:
    table = Path("/proc/net/tcp").read_text().splitlines() if Path("/proc/net/tcp").exists() else []
    bound = [
        line.split()[1] for line in table if line.split()[1].endswith(f":{cloud.port:04X}") and line.split()[3] == "0A"
    ]
    assert set(bound) <= {f"0100007F:{cloud.port:04X}"}


def test_everything_survives_a_server_killed_at_any_moment(tmp_path: Path) -> None:
    """Killed in the middle of a stream of writes: whatever was answered is there, and nothing is half there."""
    state = tmp_path / "state"
    answered: list[str] = []
    with running_cloud(state) as cloud, httpx.Client(base_url=cloud.url, trust_env=False) as http:
        http.post("/storage/v1/b?project=local-project", json={"name": "kept-bucket"}).raise_for_status()
        content = http.post("/upload/storage/v1/b/kept-bucket/o?uploadType=media&name=a%2Fb", content=b"1").json()
        http.post("/iam/v1/projects/local-project/serviceAccounts", json={"accountId": "trainer"}).raise_for_status()
        binding = {"role": "roles/logging.logWriter", "members": ["user:a@b.c"]}
        policy = {"policy": {"bindings": [binding]}}
        http.post("/crm/v1/projects/local-project:setIamPolicy", json=policy).raise_for_status()
        try:
            for number in range(1000):
                if number == 40:
                    os.kill(cloud.pid, signal.SIGKILL)
                http.post(f"{JOBS}?jobId=job-{number}", json=SMALL).raise_for_status()
                answered.append(f"job-{number}")
        except httpx.TransportError:
            pass
        os.waitpid(cloud.pid, 0)
    with running_cloud(state) as cloud, httpx.Client(base_url=cloud.url, trust_env=False) as http:
        jobs = [job["name"].rsplit("/", 1)[-1] for job in http.get(f"{JOBS}?pageSize=1000").json()["jobs"]]
        assert jobs[: len(answered)] == answered
        assert len(jobs) <= len(answered) + 1
        inventory = http.get("/_localcloud/inventory").json()["resources"]
        assert "//storage.googleapis.com/b/kept-bucket" in inventory
        assert "//cloudresourcemanager.googleapis.com/projects/local-project (IAM policy)" in inventory
        kept = http.get("/storage/v1/b/kept-bucket/o/a%2Fb").json()
        assert kept["generation"] == content["generation"]
        assert http.get("/storage/v1/b/kept-bucket/o/a%2Fb?alt=media").content == b"1"


def test_reset_forgets_everything(cloud: Any, call: Any) -> None:
    call.ok("POST", f"{JOBS}?jobId=job", SMALL)
    call.ok("POST", "/storage/v1/b?project=local-project", {"name": "some-bucket"})
    call.ok("POST", "/upload/storage/v1/b/some-bucket/o?uploadType=media&name=x", content=b"1")
    call.ok("POST", "/_localcloud/reset")
    assert call.ok("GET", "/_localcloud/inventory") == {"resources": [], "services": [], "builds": []}
    assert list((cloud.state_dir / "buckets").iterdir()) == []
    call.ok("POST", "/storage/v1/b?project=local-project", {"name": "some-bucket"})
    assert call.ok("GET", "/storage/v1/b/some-bucket/o").get("items", []) == []


def test_requests_are_recorded_as_they_were_sent(tmp_path: Path) -> None:
    file = tmp_path / "requests.jsonl"
    with (
        running_cloud(tmp_path / "state", record=file) as cloud,
        httpx.Client(base_url=cloud.url, trust_env=False) as http,
    ):
        http.post(f"{JOBS}?alt=json&jobId=job&prettyPrint=false", json=SMALL)
        http.get("/logging/v2/projects/local-project/metrics/a%2Fb?alt=json")
        http.get("/_localcloud/status")
    assert [json.loads(line) for line in file.read_text().splitlines()] == [
        {"method": "POST", "path": JOBS, "query": "jobId=job", "body": SMALL, "status": 200},
        {
            "method": "GET",
            "path": "/logging/v2/projects/local-project/metrics/a%2Fb",
            "query": "",
            "body": None,
            "status": 404,
        },
    ]


def test_a_body_that_is_no_json_object_is_refused(call: Any) -> None:
    assert call("POST", f"{JOBS}?jobId=job", content=b"{").status_code == 400
    assert call("POST", f"{JOBS}?jobId=job", content=b"[1]").status_code == 400
