"""What is left of a stack is found by the names in its file; another's is only mentioned; nothing is deleted."""

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import ops.cli
from ops.errors import MisconfiguredError, NotSucceededError, RefusedError, UnreachableError
from ops.leftover_kinds import KINDS
from ops.leftovers import look_for_leftovers
from tests.unit.ops.google_stub import Stub

LISTS = {
    "GET /run/v2/projects/demo-project/locations/europe-west4/jobs": "jobs",
    "GET /storage/v1/b": "items",
    "GET /artifactregistry/v1/projects/demo-project/locations/europe-west4/repositories": "repositories",
    "GET /iam/v1/projects/demo-project/serviceAccounts": "accounts",
    "GET /logging/v2/projects/demo-project/metrics": "metrics",
    "GET /monitoring/v3/projects/demo-project/alertPolicies": "alertPolicies",
    "GET /monitoring/v3/projects/demo-project/notificationChannels": "notificationChannels",
    "GET /monitoring/v1/projects/demo-project/dashboards": "dashboards",
}
JOBS, BUCKETS, REPOSITORIES, ACCOUNTS, METRICS, POLICIES, CHANNELS, BOARDS = LISTS
PATHS = {
    "cloudRunV2": "run/v2/",
    "storage": "storage/v1/",
    "artifactRegistry": "artifactregistry/v1/",
    "iamBeta": "iam/v1/",
    "logging": "logging/v2/",
    "monitoring": "monitoring/",
}
LABELLED = {"labels": {"app": "gpujob"}}


@pytest.fixture
def stack(google: Stub, tmp_path: Path) -> Path:
    """The file of a stack of demo-project whose cloud is the stub, in which there is nothing yet."""
    config = {"gcp:project": "demo-project", "gcp:region": "europe-west4", "gpujob:nameSuffix": "b"}
    config |= {f"gcp:{name}CustomEndpoint": f"http://127.0.0.1:{google.port}/{path}" for name, path in PATHS.items()}
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(yaml.safe_dump({"config": config}))
    return file


def there(google: Stub, **listed: list[dict]) -> None:
    for request, items in LISTS.items():
        google.answer(request, {items: listed[items]} if items in listed else {})


def test_nothing_left_is_said_with_what_was_looked_for(google: Stub, stack: Path):
    there(google)
    said: list[str] = []
    look_for_leftovers(stack, said.append)
    assert len(said) == 1
    assert said[0].startswith("Nothing of this stack is left in project demo-project, region europe-west4.")
    assert all(kind.noun in said[0] for kind in KINDS)
    assert {request.split("?")[0] for request, _ in google.requests} == set(LISTS)


def test_what_bears_the_stacks_names_is_left_over_and_the_command_that_deletes_it_is_named(google: Stub, stack: Path):
    parent = "projects/demo-project/locations/europe-west4"
    there(
        google,
        jobs=[{"name": f"{parent}/jobs/gpu-resilient-job-b"}],
        items=[{"name": "gpu-checkpoints-demo-project-b"}],
        repositories=[{"name": f"{parent}/repositories/gpujob-b"}],
        accounts=[
            {
                "name": "projects/demo-project/serviceAccounts/x",
                "email": "gpu-job-sa-b@demo-project.iam.gserviceaccount.com",
            }
        ],
        metrics=[{"name": "gpu-resilient-job-b/durable-step"}],
        alertPolicies=[
            {"name": "projects/demo-project/alertPolicies/1", "displayName": "GPU job gpu-resilient-job-b: x"}
        ],
        dashboards=[{"displayName": "GPU job gpu-resilient-job-b"}],
    )
    with pytest.raises(NotSucceededError) as caught:
        look_for_leftovers(stack, lambda _: None)
    message = str(caught.value)
    assert message.startswith(
        "7 of this stack's resources are in project demo-project, region europe-west4. Nothing was"
    )
    for words in (
        "gcloud run jobs delete gpu-resilient-job-b --region europe-west4 --project demo-project",
        "gcloud storage rm --recursive gs://gpu-checkpoints-demo-project-b",
        "gcloud artifacts repositories delete gpujob-b --location europe-west4",
        "gcloud iam service-accounts delete gpu-job-sa-b@demo-project.iam.gserviceaccount.com",
        "gcloud logging metrics delete gpu-resilient-job-b/durable-step",
        'displayName="GPU job gpu-resilient-job-b: x"',
    ):
        assert words in message
    assert {request.split()[0] for request, _ in google.requests} == {"GET"}


def test_another_stacks_resources_are_mentioned_if_labelled_and_no_reason_to_fail(google: Stub, stack: Path):
    there(google, items=[{"name": "gpu-checkpoints-demo-project", **LABELLED}, {"name": "of-somebody"}])
    said: list[str] = []
    look_for_leftovers(stack, said.append)
    assert said[0] == "Not this stack's by name, but labelled app=gpujob: bucket gpu-checkpoints-demo-project."
    assert said[1].startswith("Nothing of this stack is left")


def test_every_page_of_a_list_is_read(google: Stub, stack: Path):
    google.answer(BUCKETS, {"items": [{"name": "a"}], "nextPageToken": "more"})
    google.answer(BUCKETS, {"items": [{"name": "gpu-build-demo-project-b"}]})
    there(google)
    with pytest.raises(NotSucceededError, match="bucket gpu-build-demo-project-b"):
        look_for_leftovers(stack, lambda _: None)


def test_an_api_that_is_off_holds_nothing(google: Stub, stack: Path):
    google.refuse(METRICS, 403, "SERVICE_DISABLED: has not been used in project")
    there(google)
    look_for_leftovers(stack, lambda _: None)


def test_a_list_that_is_refused_is_no_empty_list(google: Stub, stack: Path):
    google.refuse(ACCOUNTS, 403, "denied")
    there(google)
    with pytest.raises(RefusedError, match=r"roles/iam\.serviceAccountViewer"):
        look_for_leftovers(stack, lambda _: None)


def test_a_cloud_that_does_not_answer_is_no_empty_cloud(stack: Path):
    content = yaml.safe_load(stack.read_text())
    content["config"] |= {f"gcp:{name}CustomEndpoint": f"http://127.0.0.1:9/{path}" for name, path in PATHS.items()}
    stack.write_text(yaml.safe_dump(content))
    with pytest.raises(UnreachableError):
        look_for_leftovers(stack, lambda _: None)


def test_half_a_cloud_is_not_asked(google: Stub, stack: Path):
    content = yaml.safe_load(stack.read_text())
    del content["config"]["gcp:iamBetaCustomEndpoint"]
    stack.write_text(yaml.safe_dump(content))
    with pytest.raises(MisconfiguredError, match="none for iamBeta"):
        look_for_leftovers(stack, lambda _: None)
    assert google.requests == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("config:\n  gcp:project: YOUR-PROJECT-ID\n  gcp:region: europe-west4\n", "YOUR-PROJECT-ID"),
        ("a: [", "is not YAML"),
        ("x: y\n", "no `config:`"),
    ],
)
def test_a_file_that_does_not_say_what_to_look_for_is_named(tmp_path: Path, text: str, said: str):
    file = tmp_path / "Pulumi.x.yaml"
    file.write_text(text)
    with pytest.raises(MisconfiguredError, match=said):
        look_for_leftovers(file, lambda _: None)


def test_the_command_exits_with_1_if_something_is_left(google: Stub, stack: Path):
    there(google, items=[{"name": "gpu-build-demo-project-b"}])
    done = CliRunner().invoke(ops.cli.app, ["leftovers", "--config-file", str(stack)])
    assert done.exit_code == 1
    assert "gs://gpu-build-demo-project-b" in done.output
