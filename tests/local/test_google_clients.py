"""Google's own Python clients, unmodified, against the local cloud."""

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.api_core.exceptions import Conflict, NotFound, PreconditionFailed
from google.auth.credentials import AnonymousCredentials
from google.cloud import logging_v2, run_v2, storage
from google.cloud.devtools import cloudbuild_v1

from localcloud.testing import Cloud
from tests.local.sources import archive_of

PROJECT, REGION = "local-project", "europe-west4"
PARENT = f"projects/{PROJECT}/locations/{REGION}"


def _rest(transport: Any, cloud: Cloud) -> Any:
    return transport(host=f"127.0.0.1:{cloud.port}", url_scheme="http", credentials=AnonymousCredentials())


@pytest.fixture
def jobs_client(cloud: Cloud) -> run_v2.JobsClient:
    """Cloud Run's client for jobs."""
    return run_v2.JobsClient(transport=_rest(run_v2.services.jobs.transports.JobsRestTransport, cloud))


@pytest.fixture
def executions_client(cloud: Cloud) -> run_v2.ExecutionsClient:
    """Cloud Run's client for executions."""
    return run_v2.ExecutionsClient(
        transport=_rest(run_v2.services.executions.transports.ExecutionsRestTransport, cloud)
    )


@pytest.fixture
def tasks_client(cloud: Cloud) -> run_v2.TasksClient:
    """Cloud Run's client for tasks."""
    return run_v2.TasksClient(transport=_rest(run_v2.services.tasks.transports.TasksRestTransport, cloud))


@pytest.fixture
def storage_client(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[storage.Client]:
    """Cloud Storage's client, told of the cloud as its documentation says."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", cloud.url)
    client = storage.Client(project=PROJECT, credentials=AnonymousCredentials())
    yield client
    client.close()


def _job(code: str, **template: Any) -> run_v2.Job:
    container = run_v2.Container(
        image="example.com/any/image:1",
        command=["python", "-c", code],
        resources=run_v2.ResourceRequirements(limits={"cpu": "1", "memory": "512Mi"}),
    )
    task = run_v2.TaskTemplate(
        containers=[container],
        execution_environment=run_v2.ExecutionEnvironment.EXECUTION_ENVIRONMENT_GEN2,
        **{"max_retries": 0, **template},
    )
    return run_v2.Job(
        labels={"team": "ml"},
        launch_stage="GA",
        template=run_v2.ExecutionTemplate(task_count=1, parallelism=1, template=task),
    )


def test_a_job_is_created_run_listed_and_deleted(
    jobs_client: run_v2.JobsClient, executions_client: run_v2.ExecutionsClient, tasks_client: run_v2.TasksClient
) -> None:
    job = jobs_client.create_job(parent=PARENT, job_id="hello", job=_job("print('hello')")).result(timeout=30)
    assert job.name == f"{PARENT}/jobs/hello"
    assert job.template.template.timeout.total_seconds() == 600
    assert job.template.template.max_retries == 0
    assert job.terminal_condition.state == run_v2.Condition.State.CONDITION_SUCCEEDED
    assert [each.name for each in jobs_client.list_jobs(parent=PARENT)] == [job.name]

    operation = jobs_client.run_job(name=job.name)
    assert operation.metadata.name.startswith(f"{job.name}/executions/hello-")
    execution = operation.result(timeout=60)
    assert (execution.succeeded_count, execution.failed_count) == (1, 0)
    assert [each.name for each in executions_client.list_executions(parent=job.name)] == [execution.name]
    completed = next(each for each in execution.conditions if each.type_ == "Completed")
    assert completed.state == run_v2.Condition.State.CONDITION_SUCCEEDED
    (task,) = tasks_client.list_tasks(parent=execution.name)
    assert (task.index, task.retried, task.last_attempt_result.exit_code) == (0, 0, 0)

    assert jobs_client.get_job(name=job.name).latest_created_execution.name == execution.name.rsplit("/", 1)[-1]
    jobs_client.delete_job(name=job.name).result(timeout=30)
    with pytest.raises(NotFound):
        jobs_client.get_job(name=job.name)


def test_overrides_arrive_and_a_failed_run_raises_its_reason(
    jobs_client: run_v2.JobsClient, executions_client: run_v2.ExecutionsClient, tasks_client: run_v2.TasksClient
) -> None:
    code = "import os, sys; sys.exit(int(os.environ['CODE']))"
    job = jobs_client.create_job(parent=PARENT, job_id="fails", job=_job(code)).result(timeout=30)
    override = run_v2.RunJobRequest.Overrides.ContainerOverride(env=[run_v2.EnvVar(name="CODE", value="7")])
    request = run_v2.RunJobRequest(
        name=job.name, overrides=run_v2.RunJobRequest.Overrides(container_overrides=[override], task_count=2)
    )
    operation = jobs_client.run_job(request=request)
    with pytest.raises(Exception, match="The container exited with an error"):
        operation.result(timeout=60)
    execution = executions_client.get_execution(name=operation.metadata.name)
    assert execution.failed_count == 2
    assert {task.last_attempt_result.exit_code for task in tasks_client.list_tasks(parent=execution.name)} == {7}


def test_a_running_execution_is_cancelled(
    jobs_client: run_v2.JobsClient, executions_client: run_v2.ExecutionsClient
) -> None:
    job = jobs_client.create_job(parent=PARENT, job_id="long", job=_job("import time; time.sleep(60)")).result(
        timeout=30
    )
    name = jobs_client.run_job(name=job.name).metadata.name
    execution = executions_client.cancel_execution(name=name).result(timeout=60)
    assert (execution.cancelled_count, execution.running_count) == (1, 0)
    assert executions_client.get_execution(name=name).completion_time


def test_a_job_is_updated_and_a_second_of_its_name_refused(jobs_client: run_v2.JobsClient) -> None:
    job = jobs_client.create_job(parent=PARENT, job_id="twice", job=_job("print(1)")).result(timeout=30)
    with pytest.raises(Conflict):
        jobs_client.create_job(parent=PARENT, job_id="twice", job=_job("print(1)"))
    job.template.template.max_retries = 5
    updated = jobs_client.update_job(job=job).result(timeout=30)
    assert updated.template.template.max_retries == 5
    assert updated.generation == 2


def test_the_log_of_a_run_is_read_by_the_logging_client(cloud: Cloud, jobs_client: run_v2.JobsClient) -> None:
    code = "import json\nprint('plain')\nprint(json.dumps({'severity': 'ERROR', 'message': 'structured', 'step': 4}))"
    job = jobs_client.create_job(parent=PARENT, job_id="talks", job=_job(code)).result(timeout=30)
    execution = jobs_client.run_job(name=job.name).result(timeout=60)
    options = {"api_endpoint": f"http://127.0.0.1:{cloud.port}/logging"}
    client = logging_v2.Client(
        project=PROJECT, credentials=AnonymousCredentials(), _use_grpc=False, client_options=options
    )
    own = f'labels."run.googleapis.com/execution_name"="{execution.name.rsplit("/", 1)[-1]}"'
    base = f'resource.type="cloud_run_job" AND resource.labels.job_name="talks" AND {own}'
    entries = list(client.list_entries(filter_=base, order_by=logging_v2.ASCENDING, page_size=2))
    payloads = [entry.payload for entry in entries]
    assert payloads[:2] == ["plain", {"message": "structured", "step": 4}]
    assert entries[1].severity == "ERROR"
    assert entries[0].resource.labels["location"] == REGION
    (loud,) = client.list_entries(filter_=f"{base} AND severity>=ERROR")
    assert loud.payload["step"] == 4
    client.logger("own").log_text("written", severity="INFO")
    *_about_the_client, written = client.list_entries(filter_=f'logName="projects/{PROJECT}/logs/own"')
    assert (written.payload, written.severity) == ("written", "INFO")


def test_objects_are_written_read_listed_and_deleted(cloud: Cloud, storage_client: storage.Client) -> None:
    bucket = storage_client.create_bucket("some-bucket", location="europe-west4")
    assert bucket.location == "EUROPE-WEST4"
    blob = bucket.blob("deep/path/with space.txt")
    blob.upload_from_string("hello", content_type="text/plain")
    assert (cloud.state_dir / "buckets/some-bucket/deep/path/with space.txt").read_text() == "hello"
    assert bucket.get_blob("deep/path/with space.txt").download_as_text() == "hello"
    assert [each.name for each in storage_client.list_blobs("some-bucket", prefix="deep/")] == [
        "deep/path/with space.txt"
    ]
    listing = storage_client.list_blobs("some-bucket", delimiter="/")
    assert list(listing) == []
    assert listing.prefixes == {"deep/"}
    bucket.copy_blob(blob, bucket, "copy.txt")
    assert bucket.blob("copy.txt").download_as_bytes() == b"hello"
    blob.delete()
    with pytest.raises(NotFound):
        bucket.blob("deep/path/with space.txt").download_as_bytes()
    with pytest.raises(Conflict):
        bucket.delete()
    bucket.delete(force=True)
    with pytest.raises(NotFound):
        storage_client.get_bucket("some-bucket")


def test_a_large_object_is_uploaded_in_chunks(storage_client: storage.Client) -> None:
    bucket = storage_client.create_bucket("chunky-bucket")
    content = os.urandom(3 * 2**20 + 17)
    blob = bucket.blob("big.bin", chunk_size=2**20)
    blob.upload_from_file(io.BytesIO(content), size=len(content), if_generation_match=0)
    assert bucket.get_blob("big.bin").size == len(content)
    assert bucket.blob("big.bin").download_as_bytes() == content
    assert bucket.blob("big.bin").download_as_bytes(start=5, end=9) == content[5:10]


def test_generation_preconditions_hold_for_every_kind_of_write(storage_client: storage.Client) -> None:
    bucket = storage_client.create_bucket("guarded-bucket")
    blob = bucket.blob("once.json")
    blob.upload_from_string("1", if_generation_match=0)
    first = blob.generation
    with pytest.raises(PreconditionFailed):
        bucket.blob("once.json").upload_from_string("2", if_generation_match=0)
    chunked = bucket.blob("once.json", chunk_size=2**18)
    with pytest.raises(PreconditionFailed):
        chunked.upload_from_file(io.BytesIO(b"x" * 2**19), size=2**19, if_generation_match=0)
    with pytest.raises(PreconditionFailed):
        blob.delete(if_generation_match=first + 1)
    assert bucket.blob("once.json").download_as_bytes() == b"1"
    blob.upload_from_string("3", if_generation_match=first)
    assert blob.generation > first
    with pytest.raises(PreconditionFailed):
        bucket.blob("once.json").download_as_bytes(if_generation_match=first)
    with pytest.raises(NotFound):
        bucket.delete_blob("once.json", generation=first)
    bucket.delete_blob("once.json", generation=blob.generation)


def test_files_written_past_the_server_are_objects(cloud: Cloud, storage_client: storage.Client) -> None:
    bucket = storage_client.create_bucket("mounted-bucket")
    directory = cloud.state_dir / "buckets/mounted-bucket/run"
    directory.mkdir(parents=True)
    (directory / "latest.json").write_text('{"step": 1}')
    (directory / "empty").touch()
    blobs = {each.name: each for each in storage_client.list_blobs("mounted-bucket")}
    assert set(blobs) == {"run/latest.json", "run/empty"}
    assert blobs["run/latest.json"].content_type == "application/json"
    assert blobs["run/latest.json"].size == 11
    assert bucket.blob("run/latest.json").download_as_text() == '{"step": 1}'
    first = blobs["run/latest.json"].generation
    (directory / "latest.json").write_text('{"step": 22}')
    again = bucket.get_blob("run/latest.json")
    assert again.generation > first
    assert again.download_as_text() == '{"step": 22}'
    assert again.crc32c != blobs["run/latest.json"].crc32c
    bucket.delete_blobs(list(storage_client.list_blobs("mounted-bucket")))
    assert list(directory.parent.rglob("*.json")) == []


def _upload_source(storage_client: storage.Client, files: dict[str, str]) -> cloudbuild_v1.Source:
    bucket = storage_client.create_bucket("sources-bucket")
    bucket.blob("source.tar.gz").upload_from_string(archive_of(files), content_type="application/gzip")
    return cloudbuild_v1.Source(
        storage_source=cloudbuild_v1.StorageSource(bucket="sources-bucket", object_="source.tar.gz")
    )


def test_an_image_is_built_pushed_and_run_by_its_digest(
    cloud: Cloud, call: Any, storage_client: storage.Client, jobs_client: run_v2.JobsClient, tmp_path: Path
) -> None:
    call.ok("POST", f"/artifactregistry/v1/{PARENT}/repositories?repository_id=apps", {"format": "DOCKER"})
    files = {
        "Dockerfile": "FROM python:3.11\nWORKDIR /app\nENV GREETING=hello\nCOPY pkg ./pkg\n"
        'CMD ["python", "-m", "pkg"]\n',
        "pkg/__init__.py": "",
        "pkg/__main__.py": "import os\nprint(os.environ['GREETING'], 'from the image')\n",
    }
    image = f"{REGION}-docker.pkg.dev/{PROJECT}/apps/greeter"
    builds = cloudbuild_v1.CloudBuildClient(
        transport=_rest(cloudbuild_v1.services.cloud_build.transports.CloudBuildRestTransport, cloud)
    )
    build = cloudbuild_v1.Build(
        source=_upload_source(storage_client, files),
        steps=[cloudbuild_v1.BuildStep(name="gcr.io/cloud-builders/docker", args=["build", "-t", f"{image}:v1", "."])],
        images=[f"{image}:v1"],
        options=cloudbuild_v1.BuildOptions(logging=cloudbuild_v1.BuildOptions.LoggingMode.CLOUD_LOGGING_ONLY),
    )
    operation = builds.create_build(project_id=PROJECT, build=build)
    done = operation.result(timeout=60)
    assert done.status == cloudbuild_v1.Build.Status.SUCCESS
    assert builds.get_build(project_id=PROJECT, id=done.id).status == cloudbuild_v1.Build.Status.SUCCESS
    (built,) = done.results.images
    assert (built.name, built.digest[:7]) == (f"{image}:v1", "sha256:")

    job = _job("")
    job.template.template.containers[0].image = f"{image}@{built.digest}"
    del job.template.template.containers[0].command[:]
    name = jobs_client.create_job(parent=PARENT, job_id="greets", job=job).result(timeout=30).name
    execution = jobs_client.run_job(name=name).result(timeout=60)
    own = f'labels."run.googleapis.com/execution_name"="{execution.name.rsplit("/", 1)[-1]}"'
    body = {"resourceNames": [f"projects/{PROJECT}"], "filter": own}
    assert call.ok("POST", "/v2/entries:list", body)["entries"][0]["textPayload"] == "hello from the image"
