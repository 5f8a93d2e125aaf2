"""A small program's whole life under literal `pulumi` commands; each test leaves it deployed as it found it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.testing import Cloud, running_cloud
from tests.local.provider.support import Engine, ask

PROGRAM = (Path(__file__).parent / "small_program.py").read_text()
JOB = "projects/demo/locations/europe-west4/jobs/job-one"
JOB_URN = "urn:pulumi:dev::small::gcp:cloudrunv2/job:Job::job"
EMAIL = "gpu-job-sa@demo.iam.gserviceaccount.com"
pytestmark = [pytest.mark.slow, pytest.mark.engine]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with running_cloud(tmp_path_factory.mktemp("cloud") / "state") as running:
        yield running


@pytest.fixture(scope="module")
def engine(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    engine = Engine(tmp_path_factory.mktemp("stack") / "s", PROGRAM, cloud.url)
    engine.up()
    return engine


def test_right_after_up_nothing_differs_and_the_outputs_are_the_clouds(engine: Engine) -> None:
    engine.run("preview", "--refresh", "--expect-no-changes")
    engine.run("refresh", "--preview-only", "--expect-no-changes")
    assert engine.outputs() == {"email": EMAIL, "url": "gs://data-bucket"}


def test_one_changed_setting_updates_exactly_the_job(engine: Engine) -> None:
    assert engine.steps(TIMEOUT="1200s", SWAPPED="1") == [("update", "job")]
    engine.up(TIMEOUT="1200s")
    # No timeout in the program leaves the choice to the API, whose last one stays.
    assert engine.steps() == []


def test_what_cannot_be_updated_is_replaced_with_what_hangs_on_it(engine: Engine) -> None:
    assert engine.steps(ROLE="roles/storage.objectViewer") == [("replace", "grant")]
    assert set(engine.steps(LOCATION="us-east1")) >= {("replace", "data"), ("replace", "grant")}


def test_what_somebody_else_changed_is_shown_and_put_right(engine: Engine, cloud: Cloud) -> None:
    body = {"labels": {"app": "theirs", "team": "other"}, "storageClass": "NEARLINE"}
    ask(cloud, "PATCH", "/storage/v1/b/data-bucket", body).raise_for_status()
    engine.run("preview", "--refresh", "--expect-no-changes", expect=7)
    engine.up("--refresh")
    bucket = ask(cloud, "GET", "/storage/v1/b/data-bucket").json()
    assert (bucket["labels"], bucket["storageClass"]) == ({"app": "small", "team": "other"}, "STANDARD")


def test_an_object_deleted_behind_pulumi_is_seen_and_made_again(engine: Engine, cloud: Cloud) -> None:
    ask(cloud, "DELETE", f"/run/v2/{JOB}").raise_for_status()
    assert "- 1 deleted" in engine.run("refresh", "--yes", "--skip-preview")
    assert "+ 1 created" in engine.up()
    assert ask(cloud, "GET", f"/run/v2/{JOB}").status_code == 200


def test_a_protected_job_is_not_destroyed_and_unprotecting_is_an_update(engine: Engine, cloud: Cloud) -> None:
    assert "~ 1 updated" in engine.up(PROTECTED="1")
    refused = engine.destroy("--target", JOB_URN, expect=None)
    assert "is protected, so nothing was sent" in refused
    assert ask(cloud, "GET", f"/run/v2/{JOB}").status_code == 200
    assert "~ 1 updated" in engine.up()


def test_an_object_the_state_does_not_know_names_the_import_that_then_works(engine: Engine) -> None:
    engine.run("state", "delete", JOB_URN, "--yes")
    refused = engine.run("up", "--yes", "--skip-preview", expect=None)
    assert "HTTP 409" in refused
    command = re.search(r"`pulumi (import [^`]+)`", refused)
    assert command, refused
    engine.run(*command[1].split(), "--yes", "--skip-preview", "--protect=false")
    # What only Pulumi knows, here the protection, was not there to be imported; the rest is as the program says.
    assert "~ 1 updated" in engine.up()


def test_import_takes_the_documented_ids(cloud: Cloud, engine: Engine, tmp_path: Path) -> None:
    ids = {
        ("gcp:storage/bucket:Bucket", "data"): "data-bucket",
        ("gcp:serviceaccount/account:Account", "worker"): f"projects/demo/serviceAccounts/{EMAIL}",
        ("gcp:storage/bucketIAMMember:BucketIAMMember", "grant"): (
            f"b/data-bucket roles/storage.objectUser serviceAccount:{EMAIL}"
        ),
        ("gcp:cloudrunv2/job:Job", "job"): JOB,
    }
    adopting = Engine(tmp_path / "s", PROGRAM, cloud.url)
    resources = [{"type": token, "name": name, "id": id_} for (token, name), id_ in ids.items()]
    (tmp_path / "import.json").write_text(json.dumps({"resources": resources}))
    options = ("--generate-code=false", "--yes", "--skip-preview", "--protect=false")
    assert "= 4 imported" in adopting.run("import", "--file", str(tmp_path / "import.json"), *options)
    # Only what the APIs cannot tell differs: the bucket's forceDestroy, labels that somebody else put, and protection.
    assert set(adopting.steps()) <= {("update", "data"), ("update", "job")}
    del engine  # its objects are the ones that were adopted


def test_what_the_plugin_cannot_make_is_named(engine: Engine) -> None:
    assert "`startupProbe` of Cloud Run job job is not a property" in engine.run("preview", expect=1, PROBE="1")
    unknown = engine.run("preview", expect=1, TOPIC="1")
    assert "gcp:pubsub/topic:Topic (topic) is not a type that this plugin can make" in unknown
    assert "Traceback" not in unknown


def test_a_wrong_configuration_is_named_before_anything_is_sent(engine: Engine) -> None:
    with engine.configured(projct="x"):
        shown = engine.run("preview", expect=1)
    assert "gcp:projct is not a key that this plugin knows. Did you mean gcp:project?" in shown
    assert "Traceback" not in shown
    with engine.configured(storageCustomEndpoint="https://storage.googleapis.com/storage/v1/"):
        assert "not this machine" in engine.run("preview", expect=1)


def test_an_interrupted_plugin_ends_quietly(engine: Engine) -> None:
    plugin = subprocess.Popen(
        [str(engine.folder / "bin" / "pulumi-resource-gcp"), "127.0.0.1:1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=engine.environment,
    )
    assert plugin.stdout is not None
    assert plugin.stdout.readline().strip().isdigit()
    started = time.monotonic()
    os.kill(plugin.pid, signal.SIGINT)
    _, errors = plugin.communicate(timeout=20)
    assert (plugin.returncode, errors) == (0, b"")
    assert time.monotonic() - started < 5


def test_destroy_leaves_nothing_not_even_objects(engine: Engine, cloud: Cloud) -> None:
    upload = "/upload/storage/v1/b/data-bucket/o?uploadType=media&name=a%2Fb.txt"
    ask(cloud, "POST", upload, "bytes").raise_for_status()
    engine.destroy()
    assert ask(cloud, "GET", "/_localcloud/inventory").json()["resources"] == []
