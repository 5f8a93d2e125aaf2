"""The Dockerfile as the program relies on it: layers, arguments, user, process 1, what is installed for which GPU."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from dockerfile_parse import DockerfileParser

from infra.accelerators import CATALOGUE
from infra.image import build_args
from infra.job import COMMAND
from infra.volumes import MOUNT_OPTIONS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def steps() -> list[tuple[str, str]]:
    with (ROOT / "Dockerfile").open("rb") as file:
        return [(s["instruction"], s["value"]) for s in DockerfileParser(fileobj=file).structure]


def position(steps, instruction, containing="") -> int:
    return next(i for i, (name, value) in enumerate(steps) if name == instruction and containing in value)


def test_the_command_is_in_exec_form_so_that_python_itself_hears_sigterm(steps):
    assert json.loads(steps[position(steps, "CMD")][1]) == list(COMMAND)
    assert "ENTRYPOINT" not in [name for name, _ in steps]


def test_dependencies_come_before_code(steps):
    assert position(steps, "COPY", "requirements/worker.txt") < position(steps, "COPY", "app/")
    assert position(steps, "RUN", "--require-hashes") < position(steps, "COPY", "app/")


def test_the_base_is_pinned(steps):
    image = steps[position(steps, "FROM")][1]
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+(@sha256:[0-9a-f]{64})?", image)


def test_it_declares_exactly_the_arguments_that_the_program_passes(steps):
    declared = {value.split("=")[0] for name, value in steps if name == "ARG"}
    assert all(declared == set(build_args(gpu)) for gpu in CATALOGUE.values())


def test_the_user_is_the_one_to_whom_the_bucket_is_mounted(steps):
    uid, gid = steps[position(steps, "USER")][1].split(":")
    assert {f"uid={uid}", f"gid={gid}"} <= set(MOUNT_OPTIONS)
    assert uid != "0"
    assert position(steps, "USER") > position(steps, "RUN", "--require-hashes")


def test_an_l4_gets_a_torch_for_its_driver_and_an_rtx_the_pinned_one():
    l4, rtx = (build_args(CATALOGUE[name]) for name in ("nvidia-l4", "nvidia-rtx-pro-6000"))
    assert l4["CUDA_MAJOR"] == "12"
    assert l4["TORCH_INDEX"].endswith("/cu126")
    assert l4["TORCH_REQUIREMENT"].startswith("torch")
    assert rtx == {"CUDA_MAJOR": "13", "TORCH_INDEX": "", "TORCH_REQUIREMENT": ""}


def rest_of_the_requirements(steps) -> str:
    """What the Dockerfile's own filter leaves of requirements/worker.txt where another torch was installed."""
    program = re.search(r"awk '([^']+)'", steps[position(steps, "RUN", "awk")][1])[1]
    command = ["awk", program, str(ROOT / "requirements/worker.txt")]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_where_another_torch_is_installed_the_pinned_one_and_its_cuda_are_left_out(steps):
    names = re.findall(r"^([a-z0-9-]+)==", rest_of_the_requirements(steps), re.MULTILINE)
    assert not [name for name in names if name.startswith(("torch", "triton", "nvidia", "cuda"))]
    assert {"numpy", "crc32c", "google-cloud-storage"} <= set(names)


def test_the_filter_keeps_every_hash_of_what_it_keeps(steps):
    text = rest_of_the_requirements(steps)
    blocks = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert blocks
    assert all("--hash=sha256:" in block for block in blocks)


def test_the_worker_and_its_image_agree_on_the_packages(steps):
    """Every requirement that requirements/worker.in names is installed one way or the other."""
    wanted = {
        re.split(r"[=<>]", line)[0].strip()
        for line in (ROOT / "requirements/worker.in").read_text().splitlines()
        if line.strip() and not line.startswith("#")
    }
    kept = set(re.findall(r"^([a-z0-9-]+)==", rest_of_the_requirements(steps), re.MULTILINE))
    assert wanted - kept == {"torch"}
