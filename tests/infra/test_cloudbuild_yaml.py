"""cloudbuild.yaml builds what `pulumi up` builds, and .gcloudignore uploads what it uploads."""

import re
from pathlib import Path

import pytest
import yaml
from google.cloud.devtools import cloudbuild_v1 as cb
from pathspec import GitIgnoreSpec

from infra.accelerators import CATALOGUE
from infra.cloud_build import BuildRequest, build_spec
from infra.context import context_files
from infra.image import build_args
from infra.settings import Settings

ROOT = Path(__file__).parents[2]
REVISION = "context-" + "a" * 64


def asked_by_pulumi(gpu: str) -> dict:
    """The build that `pulumi up` asks for, without its source, which a person submits."""
    stack = Settings(project="demo-project", region="europe-west4")
    request = BuildRequest(
        project=stack.project,
        region=stack.region,
        context_hash="a" * 64,
        source_bucket=stack.source_bucket,
        repository_url=stack.repository_url,
        build_account=f"projects/demo-project/serviceAccounts/{stack.build_account}@demo-project.iam.gserviceaccount.com",
        build_args=build_args(CATALOGUE[gpu]),
    )
    build = cb.Build.to_dict(build_spec(request, "object"), use_integers_for_enums=False)
    return {name: value for name, value in build.items() if name != "source" and value}


def asked_by_file(**substitutions: str) -> dict:
    """The build that the file asks for, with Cloud Build's own variables and these substitutions filled in."""
    content = yaml.safe_load((ROOT / "cloudbuild.yaml").read_text())
    known = {"PROJECT_ID": "demo-project", "LOCATION": "europe-west4", "BUILD_ID": "b"}
    known |= content.pop("substitutions") | substitutions
    content["options"].pop("dynamicSubstitutions")

    def filled(value):
        if isinstance(value, dict):
            return {name: filled(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [filled(inner) for inner in value]
        while "${" in value:
            value = re.sub(r"\$\{(\w+)\}", lambda match: known[match[1]], value)
        return value

    build = cb.Build.from_json(__import__("json").dumps(filled(content)))
    return {name: value for name, value in cb.Build.to_dict(build, use_integers_for_enums=False).items() if value}


def test_the_file_asks_for_the_build_that_pulumi_asks_for():
    tag = f"context-{'a' * 12}"
    assert asked_by_file(_TAG=tag, _REVISION=REVISION) == asked_by_pulumi("nvidia-l4")


@pytest.mark.parametrize("gpu", sorted(CATALOGUE))
def test_with_its_substitutions_it_builds_for_any_gpu(gpu):
    arguments = {f"_{name}": value for name, value in build_args(CATALOGUE[gpu]).items()}
    found = asked_by_file(_TAG=f"context-{'a' * 12}", _REVISION=REVISION, **arguments)
    assert found == asked_by_pulumi(gpu)


def test_the_comment_names_the_substitutions_of_the_other_gpu():
    rtx = build_args(CATALOGUE["nvidia-rtx-pro-6000"])
    assert rtx == {"CUDA_MAJOR": "13", "TORCH_INDEX": "", "TORCH_REQUIREMENT": ""}
    text = " ".join((ROOT / "cloudbuild.yaml").read_text().replace("#", " ").split())
    assert "for nvidia-rtx-pro-6000 they are 13 and twice empty" in text


def test_what_gcloud_uploads_is_the_build_context():
    """Read as git reads it: a file goes if neither it nor a folder above it is left out."""
    rules = GitIgnoreSpec.from_lines((ROOT / ".gcloudignore").read_text().splitlines())
    top = [path for path in ROOT.iterdir() if path.is_file() or path.name in ("app", "infra", "requirements", "docs")]
    files = [file for path in top for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()]
    uploaded = [name for file in files if not rules.match_file(name := file.relative_to(ROOT).as_posix())]
    assert sorted(uploaded) == context_files(ROOT)
