"""How a job's tasks run: what they are told, how often, how many at once, and what is recorded of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from localcloud.testing import running_cloud

COUNTING = """
import os, pathlib, sys
file = pathlib.Path(os.environ['DIR']) / 'runs'
file.open('a').write('x')
print('run', len(file.read_text()))
sys.exit(0 if len(file.read_text()) >= int(os.environ['SUCCEEDS_AT']) else 3)
"""


def _bucket(call: Any) -> dict[str, Any]:
    """A bucket and the parts of a job that mount it at /data."""
    call.ok("POST", "/storage/v1/b?project=local-project", {"name": "data-bucket", "location": "EUROPE-WEST4"})
    return {
        "volumes": [{"name": "data", "gcs": {"bucket": "data-bucket"}}],
        "mounts": [{"name": "data", "mountPath": "/data"}],
    }


def test_a_task_hears_its_place_and_its_declared_environment(jobs: Any) -> None:
    code = "import os, json; print(json.dumps({'severity': 'INFO', 'message': 'env', 'env': dict(os.environ)}))"
    environment = [{"name": "MODE", "value": "fast"}, {"name": "EMPTY"}]
    jobs.create(code, container={"env": environment}, execution={"taskCount": 2, "parallelism": 1})
    execution = jobs.run()
    jobs.finished(execution)
    heard = [entry["jsonPayload"]["env"] for entry in jobs.entries(execution, 'jsonPayload.message="env"')]
    assert [each["CLOUD_RUN_TASK_INDEX"] for each in heard] == ["0", "1"]
    for each in heard:
        assert each["CLOUD_RUN_JOB"] == "job"
        assert each["CLOUD_RUN_EXECUTION"] == execution.rsplit("/", 1)[-1]
        assert each["CLOUD_RUN_TASK_ATTEMPT"] == "0"
        assert each["CLOUD_RUN_TASK_COUNT"] == "2"
        assert (each["MODE"], each["EMPTY"]) == ("fast", "")


def test_a_task_inherits_nothing_of_the_developers_environment(jobs: Any) -> None:
    jobs.create("import os; print(sorted(os.environ))")
    execution = jobs.run()
    jobs.finished(execution)
    names = jobs.lines(execution)[0]
    for foreign in ("GOOGLE_APPLICATION_CREDENTIALS", "PYTHONPATH", "PYTEST_CURRENT_TEST", "VIRTUAL_ENV"):
        assert foreign not in names


def test_a_failing_task_is_retried_until_it_succeeds(jobs: Any, call: Any) -> None:
    data = _bucket(call)
    environment = [{"name": "DIR", "value": "/data"}, {"name": "SUCCEEDS_AT", "value": "3"}]
    container = {"env": environment, "volumeMounts": data["mounts"]}
    jobs.create(COUNTING, maxRetries=3, volumes=data["volumes"], container=container)
    ended = jobs.finished(execution := jobs.run())
    assert (ended["succeededCount"], ended.get("failedCount", 0), ended["retriedCount"]) == (1, 0, 2)
    assert ended["conditions"][0] == {
        **ended["conditions"][0],
        "type": "Completed",
        "state": "CONDITION_SUCCEEDED",
    }
    assert [(each["why"], each["exit_code"]) for each in jobs.attempts(execution)] == [
        ("failed", 3),
        ("failed", 3),
        ("finished", 0),
    ]
    assert jobs.tasks(execution)[0]["retried"] == 2
    assert jobs.tasks(execution)[0]["lastAttemptResult"] == {"status": {}, "exitCode": 0}
    attempts = [
        entry["labels"]["run.googleapis.com/task_attempt"] for entry in jobs.entries(execution, "textPayload:run")
    ]
    assert attempts == ["0", "1", "2"]


def test_a_task_that_always_fails_fails_the_execution_with_its_reason(jobs: Any, call: Any) -> None:
    jobs.create("import sys; sys.exit(78)", maxRetries=1)
    ended = jobs.finished(execution := jobs.run())
    assert (ended.get("succeededCount", 0), ended["failedCount"], ended["retriedCount"]) == (0, 1, 1)
    completed = ended["conditions"][0]
    assert completed["state"] == "CONDITION_FAILED"
    assert completed["executionReason"] == "NON_ZERO_EXIT_CODE"
    own = execution.rsplit("/", 1)[-1]
    assert completed["message"] == f"Task {own}-task0 failed with message: The container exited with an error."
    assert jobs.tasks(execution)[0]["lastAttemptResult"]["exitCode"] == 78
    assert "Container called exit(78)." in jobs.lines(execution)
    job = call.ok("GET", "/v2/projects/local-project/locations/europe-west4/jobs/job")
    assert job["latestCreatedExecution"]["completionStatus"] == "EXECUTION_FAILED"


def test_the_operation_of_a_run_ends_with_the_execution(jobs: Any, call: Any) -> None:
    jobs.create("print('done')")
    operation = call.ok("POST", "/v2/projects/local-project/locations/europe-west4/jobs/job:run", {})
    jobs.finished(operation["metadata"]["name"])
    operation = call.ok("GET", f"/run/v2/{operation['name']}")
    assert operation["done"] is True
    assert operation["response"]["succeededCount"] == 1


def test_no_more_tasks_run_at_once_than_parallelism_allows(jobs: Any, call: Any) -> None:
    """Each task holds a file while it runs and counts those of the others; all six wait until two have overlapped."""
    data = _bucket(call)
    code = """
import os, pathlib, time
here = pathlib.Path(os.environ['DIR']); mine = here / ('running-' + os.environ['CLOUD_RUN_TASK_INDEX'])
mine.touch(); end = time.time() + 20; most = 0
while time.time() < end:
    most = max(most, len(list(here.glob('running-*'))))
    if (here / 'met').exists() and most: break
    if most >= 2: (here / 'met').touch()
    time.sleep(0.02)
time.sleep(0.1)
most = max(most, len(list(here.glob('running-*'))))
mine.unlink()
print('together', most)
"""
    container = {"env": [{"name": "DIR", "value": "/data"}], "volumeMounts": data["mounts"]}
    jobs.create(
        code, volumes=data["volumes"], container=container, execution={"taskCount": 6, "parallelism": 2}, timeout="60s"
    )
    ended = jobs.finished(execution := jobs.run())
    assert ended["succeededCount"] == 6
    together = [int(line.split()[1]) for line in jobs.lines(execution, "textPayload:together")]
    assert max(together) == 2


def test_overrides_change_one_execution_and_not_the_job(jobs: Any, call: Any) -> None:
    jobs.create("import os, sys; print(sys.argv[1:], os.environ.get('MODE'), os.environ['CLOUD_RUN_TASK_COUNT'])")
    overrides = {
        "containerOverrides": [{"args": ["--steps", "5"], "env": [{"name": "MODE", "value": "short"}]}],
        "taskCount": 2,
        "timeout": "30s",
    }
    ended = jobs.finished(execution := jobs.run(overrides=overrides))
    assert ended["taskCount"] == 2
    assert ended["template"]["timeout"] == "30s"
    assert jobs.lines(execution, 'logName:"stdout"') == ["['--steps', '5'] short 2"] * 2
    job = call.ok("GET", "/v2/projects/local-project/locations/europe-west4/jobs/job")
    assert "args" not in job["template"]["template"]["containers"][0]


def test_a_mount_path_means_the_buckets_directory_in_command_arguments_and_environment(jobs: Any, call: Any) -> None:
    data = _bucket(call)
    code = "import os, sys, pathlib; pathlib.Path(sys.argv[1]).write_text(os.environ['TEXT'] + os.environ['DIR'][-12:])"
    container = {
        "args": ["/data/out.txt"],
        "env": [{"name": "TEXT", "value": "see /data, "}, {"name": "DIR", "value": "/data"}],
        "volumeMounts": data["mounts"],
    }
    jobs.create(code, volumes=data["volumes"], container=container)
    assert jobs.finished(jobs.run())["succeededCount"] == 1
    assert call("GET", "/storage/v1/b/data-bucket/o/out.txt?alt=media").text == "see /data, /data-bucket"


def test_a_mount_holds_where_the_state_directory_was_named_from_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs_on: Any
) -> None:
    """As by default: `build/localcloud`, seen from where the server was started."""
    monkeypatch.chdir(tmp_path)
    with running_cloud(Path("build/state")) as cloud, jobs_on(cloud) as jobs:
        data = _bucket(jobs.call)
        code = "import pathlib; pathlib.Path(__import__('sys').argv[1]).write_text('kept')"
        jobs.create(code, volumes=data["volumes"], container={"args": ["/data/out"], "volumeMounts": data["mounts"]})
        assert jobs.finished(jobs.run())["succeededCount"] == 1
    assert (tmp_path / "build/state/buckets/data-bucket/out").read_text() == "kept"


def test_a_missing_bucket_fails_the_execution_and_says_which(jobs: Any) -> None:
    mounts = [{"name": "data", "mountPath": "/data"}]
    jobs.create(
        "print('never')",
        volumes=[{"name": "data", "gcs": {"bucket": "no-such-bucket"}}],
        container={"volumeMounts": mounts},
    )
    ended = jobs.finished(execution := jobs.run())
    assert ended["failedCount"] == 1
    message = ended["conditions"][0]["message"]
    assert "'no-such-bucket' does not exist" in message
    assert "never" not in jobs.lines(execution)


def test_a_read_only_mount_can_be_read_and_not_written(jobs: Any, call: Any) -> None:
    data = _bucket(call)
    call.ok("POST", "/upload/storage/v1/b/data-bucket/o?uploadType=media&name=in.txt", content=b"hello")
    code = """
import errno, os, pathlib
here = pathlib.Path(os.environ['DIR'])
print((here / 'in.txt').read_text())
try:
    (here / 'out.txt').write_text('x')
except OSError as error:
    print(errno.errorcode[error.errno])
"""
    volumes = [{"name": "data", "gcs": {"bucket": "data-bucket", "readOnly": True}}]
    container = {"env": [{"name": "DIR", "value": "/data"}], "volumeMounts": data["mounts"]}
    jobs.create(code, volumes=volumes, container=container)
    jobs.finished(execution := jobs.run())
    lines = jobs.lines(execution, 'logName:"std"')
    possible = "A read-only mount is not possible here" not in " ".join(lines)
    assert lines[-2:] == ["hello", "EROFS"] if possible else lines[-1] == "hello"


def test_a_program_that_does_not_exist_fails_with_its_name(jobs: Any) -> None:
    jobs.create("", container={"command": ["/no/such/program"]})
    jobs.finished(execution := jobs.run())
    assert jobs.attempts(execution)[0]["exit_code"] == 127
    assert any("/no/such/program" in line for line in jobs.lines(execution))


def test_output_becomes_log_entries_as_on_cloud_run(jobs: Any) -> None:
    lines = [
        {"severity": "WARNING", "message": "slow", "step": 3, "logging.googleapis.com/labels": {"phase": "train"}},
        {"message": "timed", "time": "2026-01-02T03:04:05.678Z"},
    ]
    code = f"import sys\nfor line in {[json.dumps(each) for each in lines]!r}: print(line)\n"
    code += "print('{not json'); print('on stderr', file=sys.stderr); print('x' * 600000); print('no newline', end='')"
    jobs.create(code)
    jobs.finished(execution := jobs.run())
    stdout = [each for each in jobs.entries(execution) if each["logName"].endswith("stdout")]
    by_message = {each.get("jsonPayload", {}).get("message"): each for each in stdout}
    slow = by_message["slow"]
    assert slow["severity"] == "WARNING"
    assert slow["jsonPayload"] == {"message": "slow", "step": 3}
    assert slow["labels"]["phase"] == "train"
    assert slow["labels"]["run.googleapis.com/task_index"] == "0"
    assert slow["resource"] == {
        "type": "cloud_run_job",
        "labels": {"job_name": "job", "location": "europe-west4", "project_id": "local-project"},
    }
    assert by_message["timed"]["timestamp"] == "2026-01-02T03:04:05.678000Z"
    texts = [each["textPayload"] for each in stdout if "textPayload" in each]
    assert texts[0] == "{not json"
    assert texts[-1] == "no newline"
    assert sum(text.count("x") for text in texts) == 600000
    assert max(len(text) for text in texts) <= 256 * 1024 + 65536
    assert jobs.lines(execution, 'logName="projects/local-project/logs/run.googleapis.com%2Fstderr"') == ["on stderr"]
