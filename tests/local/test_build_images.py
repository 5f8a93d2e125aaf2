"""Builds: what ends up in the image, when its digest changes, and what makes a build fail and how it says so."""

from typing import Any

import pytest

from tests.local.sources import archive_of

PARENT = "projects/local-project/locations/europe-west4"
IMAGE = "europe-west4-docker.pkg.dev/local-project/apps/app"
FILES = {
    "Dockerfile": 'FROM python:3.11-slim\nWORKDIR /srv\nCOPY app ./app\nCMD ["python", "-m", "app"]\n',
    "app/__init__.py": "",
    "app/__main__.py": "print('hello')\n",
}


class Builds:
    """Submits builds of small sources and waits for them."""

    def __init__(self, call: Any) -> None:
        self.call = call
        call.ok("POST", "/storage/v1/b?project=local-project", {"name": "sources-bucket", "location": "EU"})
        call.ok("POST", f"/artifactregistry/v1/{PARENT}/repositories?repository_id=apps", {"format": "DOCKER"})

    def submit(self, files: dict[str, str], *arguments: str, image: str = f"{IMAGE}:v1", **fields: Any) -> Any:
        """The ended build of these files by `docker build -t image arguments .`."""
        path = "/upload/storage/v1/b/sources-bucket/o?uploadType=media&name=source.tar.gz"
        self.call.ok("POST", path, content=archive_of(files))
        body = {
            "source": {"storageSource": {"bucket": "sources-bucket", "object": "source.tar.gz"}},
            "steps": [{"name": "gcr.io/cloud-builders/docker", "args": ["build", "-t", image, *arguments, "."]}],
            "images": [image],
            "options": {"logging": "CLOUD_LOGGING_ONLY"},
            **fields,
        }
        return self.ended(self.call.ok("POST", f"/cloudbuild/v1/{PARENT}/builds", body))

    def ended(self, operation: Any) -> Any:
        """The build of this operation when it has ended."""
        number = operation["metadata"]["build"]["id"]
        for _ in range(2000):
            build = self.call.ok("GET", f"/v1/projects/local-project/builds/{number}")
            if "finishTime" in build:
                assert self.call.ok("GET", f"/v1/{operation['name']}")["done"] is True
                return build
        raise AssertionError("the build does not end")

    def digest(self, files: dict[str, str], *arguments: str) -> str:
        """The digest that these files give."""
        build = self.submit(files, *arguments)
        assert build["status"] == "SUCCESS", build["statusDetail"]
        return build["results"]["images"][0]["digest"]

    def log(self, build: Any) -> list[str]:
        """The build's log."""
        body = {"resourceNames": ["projects/local-project"], "pageSize": 1000}
        body["filter"] = f'resource.type="build" AND resource.labels.build_id="{build["id"]}"'
        return [entry["textPayload"] for entry in self.call.ok("POST", "/logging/v2/entries:list", body)["entries"]]


@pytest.fixture
def builds(call: Any) -> Builds:
    """Builds on `cloud`."""
    return Builds(call)


def _changed(**files: str) -> dict[str, str]:
    return {**FILES, **{name.replace("__", "."): text for name, text in files.items()}}


def test_the_digest_depends_on_content_and_on_nothing_else(builds: Builds) -> None:
    first = builds.digest(FILES)
    assert builds.digest(dict(reversed(FILES.items()))) == first
    assert builds.digest({**FILES, "notes.txt": "not copied"}) == first
    assert builds.digest({**FILES, "app/__main__.py": "print('changed')\n"}) != first
    assert builds.digest({**FILES, "Dockerfile": FILES["Dockerfile"].replace("3.11", "3.12")}) != first
    assert builds.digest({**FILES, "Dockerfile": FILES["Dockerfile"] + "ENV MODE=fast\n"}) != first


def test_a_tag_moves_to_the_newest_image_and_both_stay_listed(builds: Builds, call: Any) -> None:
    first = builds.digest(FILES)
    second = builds.digest({**FILES, "app/__main__.py": "print('changed')\n"})
    images = call.ok("GET", f"/artifactregistry/v1/{PARENT}/repositories/apps/dockerImages")["dockerImages"]
    assert {image["uri"]: image["tags"] for image in images} == {f"{IMAGE}@{first}": [], f"{IMAGE}@{second}": ["v1"]}
    name = f"{PARENT}/repositories/apps/dockerImages/app@{second}"
    assert call.ok("GET", f"/artifactregistry/v1/{name}")["name"] == name
    call.ok("DELETE", f"/artifactregistry/v1/{PARENT}/repositories/apps")
    assert "//artifactregistry" not in str(call.ok("GET", "/_localcloud/inventory")["resources"])


@pytest.mark.parametrize(
    ("files", "arguments", "detail"),
    [
        ({**FILES, "Dockerfile": "FROM a\nCOPY missing.txt /x\n"}, [], "file not found in build context"),
        ({**FILES, ".dockerignore": "app\n"}, [], "excluded by .dockerignore: app"),
        ({**FILES, "Dockerfile": "FROM a\nCOPY ../etc /x\n"}, [], "forbidden path outside the build context"),
        ({**FILES, "Dockerfile": 'FROM a\nCMD ["python", "-m", "ap"]\n'}, [], "module 'ap' is neither in the image"),
        ({**FILES, "Dockerfile": 'FROM a\nCMD ["python", "main.py"]\n'}, [], "'main.py' is not in the image"),
        (
            {**FILES, "Dockerfile": 'FROM a\nENTRYPOINT ["/bin/no-such"]\n'},
            [],
            "'/bin/no-such' is neither in the image",
        ),
        ({**FILES, "Dockerfile": "COPY app /app\n"}, [], "COPY before FROM"),
        ({"app.py": ""}, [], "no Dockerfile at Dockerfile"),
        (FILES, ["-f", "other.Dockerfile"], "no Dockerfile at other.Dockerfile"),
        (FILES, ["--squash"], "`docker build --squash` is not supported"),
    ],
)
def test_a_build_fails_and_says_why(builds: Builds, files: Any, arguments: list[str], detail: str) -> None:
    build = builds.submit(files, *arguments)
    assert build["status"] == "FAILURE"
    assert detail in build["statusDetail"]
    assert any(detail in line for line in builds.log(build))
    assert "results" not in build


def test_a_push_into_a_repository_that_does_not_exist_fails(builds: Builds) -> None:
    build = builds.submit(FILES, image=IMAGE.replace("/apps/", "/none/") + ":v1")
    assert build["status"] == "FAILURE"
    assert "Repository 'none' not found" in build["statusDetail"]


def test_other_builders_and_sources_are_refused_by_name(builds: Builds, call: Any) -> None:
    build = builds.submit(FILES, steps=[{"name": "gcr.io/cloud-builders/gcloud", "args": ["version"]}])
    assert "'gcr.io/cloud-builders/gcloud'" in build["statusDetail"]
    missing = {"storageSource": {"bucket": "sources-bucket", "object": "none.tar.gz"}}
    assert "gs://sources-bucket/none.tar.gz does not exist" in builds.submit(FILES, source=missing)["statusDetail"]


def test_a_later_step_that_is_not_supported_keeps_back_what_earlier_ones_built(builds: Builds, call: Any) -> None:
    docker = {"name": "gcr.io/cloud-builders/docker", "args": ["build", "-t", f"{IMAGE}:v1", "."]}
    build = builds.submit(FILES, steps=[docker, {"name": "gcr.io/cloud-builders/gcloud", "args": ["version"]}])
    assert "Step 1 ('gcr.io/cloud-builders/gcloud')" in build["statusDetail"]
    assert build["statusDetail"].endswith("Nothing was pushed.")
    assert any(line.startswith("Successfully built sha256:") for line in builds.log(build))
    images = call.ok("GET", f"/artifactregistry/v1/{PARENT}/repositories/apps/dockerImages")
    assert images == {}


def test_an_account_of_its_own_needs_a_place_for_the_log(builds: Builds, call: Any) -> None:
    body = {
        "steps": [{"name": "gcr.io/cloud-builders/docker", "args": ["build", "."]}],
        "serviceAccount": "projects/p/x",
    }
    answer = call("POST", "/v1/projects/local-project/builds", body)
    assert answer.status_code == 400
    assert "CLOUD_LOGGING_ONLY" in answer.json()["error"]["message"]


def test_substitutions_and_build_arguments_are_filled_in(builds: Builds) -> None:
    dockerfile = "ARG BASE=python\nFROM ${BASE}:3\nARG WHO\nENV GREETING=hello-${WHO:-nobody}\nCOPY app /app\n"
    build = builds.submit(
        {**FILES, "Dockerfile": dockerfile},
        *["--build-arg", "WHO=$_WHO", "--build-arg", "BASE=pypy"],
        substitutions={"_WHO": "world"},
        image=f"{IMAGE}:$BUILD_ID",
    )
    assert build["status"] == "SUCCESS"
    assert build["results"]["images"][0]["name"] == f"{IMAGE}:{build['id']}"
    assert "FROM pypy:3" in builds.log(build)


DOCKERFILE_OF_EVERYTHING = r"""
# syntax=docker/dockerfile:1
FROM python:3.11 AS wheels
WORKDIR /wheels
COPY requirements.txt .
RUN pip wheel -r requirements.txt \
    && echo done
FROM python:3.11-slim
ENV DIR=/opt/app \
    MODE="two words"
WORKDIR $DIR
COPY --from=wheels /wheels /wheels/
COPY --chown=1000:1000 ["app/__main__.py", "app/__init__.py", "./pkg/"]
COPY *.txt data/
COPY . whole
WORKDIR sub
USER nobody
EXPOSE 8080
ENTRYPOINT ["python", "-c"]
CMD ["import os, sys; print(sorted(os.listdir('..')), os.environ['MODE'], os.getcwd()[-12:], sys.argv[1:])"]
"""


def test_the_instructions_of_a_real_dockerfile_do_what_docker_does(builds: Builds, jobs: Any) -> None:
    files = {
        **FILES,
        "Dockerfile": DOCKERFILE_OF_EVERYTHING,
        "requirements.txt": "torch\n",
        "secret.key": "no",
        "deep/er/file.log": "no",
        "deep/keep.txt": "yes",
        ".dockerignore": "# what stays out\n*.key\n**/*.log\nDockerfile\n",
    }
    digest = builds.digest(files)
    jobs.create("", container={"image": f"{IMAGE}@{digest}", "command": [], "args": []})
    ended = jobs.finished(execution := jobs.run())
    assert ended["succeededCount"] == 1, jobs.lines(execution)
    said = jobs.lines(execution)[0]
    assert said == "['data', 'pkg', 'sub', 'whole'] two words /opt/app/sub []"
    code = """
import pathlib
top = pathlib.Path('..')
print(sorted(str(each.relative_to(top)) for each in top.rglob('*') if each.is_file()))
"""
    jobs.create("", name="looks", container={"image": f"{IMAGE}:v1", "command": [], "args": [code]})
    jobs.finished(execution := jobs.run("looks"))
    assert jobs.lines(execution)[0] == str(
        [
            "data/requirements.txt",
            "pkg/__init__.py",
            "pkg/__main__.py",
            "whole/.dockerignore",
            "whole/app/__init__.py",
            "whole/app/__main__.py",
            "whole/deep/keep.txt",
            "whole/requirements.txt",
        ]
    )


def test_a_task_cannot_change_the_image_for_the_next(builds: Builds, jobs: Any) -> None:
    touch = "pathlib.Path('left').touch(); pathlib.Path('app/x.py').touch()"
    writes = f"import os, pathlib; print(os.path.exists('left')); {touch}"
    digest = builds.digest(FILES)
    container = {"image": f"{IMAGE}@{digest}", "command": ["python", "-c", writes]}
    jobs.create("", container=container, execution={"taskCount": 2, "parallelism": 1})
    jobs.finished(execution := jobs.run())
    assert jobs.lines(execution, 'logName:"stdout"') == ["False", "False"]
