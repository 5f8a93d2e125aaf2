"""`pulumi up` interrupted at each of its changes in turn: the next `up`, or `gpujob recover` and then `up`, heals.

The local cloud stands still when the change has taken effect and its answer has not been given: the engine cannot know
of it. `make interruption-sweep` takes every change; otherwise two a day are taken, others each day.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud import TREE
from localcloud.testing import Cloud, running_cloud
from localcloud.toolchain.google_provider import provider_in_use
from ops.recover_named import NAMED_KINDS
from ops.recover_state import IMPORT_IDS
from tests.command import output_of, pulumi
from tests.local.stack.support import LocalStack, kill_group, wait_until

pytestmark = [pytest.mark.engine, pytest.mark.slow]

CHANGES = 35
"""Requests by which an undisturbed `up` changes something; the first test counts them."""
BUILT_IN = "localcloud.provider"
EMAIL = "a@example.com"


def moments(offset: int) -> list[int]:
    """Every change, or those of today."""
    if os.environ.get("GPUJOB_SWEEP") == "all":
        return list(range(1, CHANGES + 1))
    first = (datetime.datetime.now(datetime.UTC).timetuple().tm_yday + offset) % CHANGES
    return [first + 1, (first + CHANGES // 2) % CHANGES + 1]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """One for the file; each test begins with nothing in it."""
    with running_cloud(tmp_path_factory.mktemp("cloud")) as cloud:
        yield cloud


@pytest.fixture
def stack(cloud: Cloud, tmp_path: Path) -> LocalStack:
    """An empty stack, one that notifies somebody, on an empty cloud."""
    return fresh(cloud, tmp_path)


def fresh(cloud: Cloud, folder: Path) -> LocalStack:
    cloud.ask("POST", "reset")
    stack = LocalStack(cloud, folder)
    stack.set("gpujob:notificationEmails", [EMAIL])
    return stack


@pytest.fixture(scope="module")
def undisturbed(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Counter[str]]:
    """How many changes an `up` makes that nobody interrupts, and what exists then."""
    stack = fresh(cloud, tmp_path_factory.mktemp("undisturbed"))
    cloud.ask("POST", "hold", {})
    stack.on_stack("up", "--yes", "--skip-preview")
    return int(cloud.ask("GET", "hold")["changes"]), existing(stack)


def existing(stack: LocalStack) -> Counter[str]:
    """How often each object exists; what Google numbers is called by its kind."""
    return Counter(
        re.sub(r"(alertPolicies|notificationChannels|dashboards)/\d+", r"\1/N", n) for n in stack.inventory()
    )


def test_every_change_is_in_the_sweep(undisturbed: tuple[int, Counter[str]]) -> None:
    if provider_in_use(TREE / "build" / "bin") == BUILT_IN:
        assert undisturbed[0] == CHANGES
    assert undisturbed[0] > CHANGES // 2


@pytest.mark.parametrize("moment", moments(0))
def test_an_up_stopped_by_ctrl_c_is_healed_by_the_next_up(
    stack: LocalStack, moment: int, undisturbed: tuple[int, Counter[str]]
) -> None:
    begin(stack, moment)
    process = start_and_hold(stack, moment)
    os.kill(process.pid, signal.SIGINT)
    stack.cloud.ask("POST", "hold", {})
    process.wait(timeout=120)
    is_healed_by_up(stack, undisturbed[1])


@pytest.mark.parametrize("moment", moments(CHANGES // 4))
def test_an_up_that_was_killed_is_healed_by_recover_and_up(
    stack: LocalStack, moment: int, undisturbed: tuple[int, Counter[str]]
) -> None:
    begin(stack, moment)
    process = start_and_hold(stack, moment)
    kill_group(process)
    stack.cloud.ask("POST", "hold", {})
    recover(stack)
    is_healed_by_up(stack, undisturbed[1])


def begin(stack: LocalStack, moment: int) -> None:
    stack.cloud.ask("POST", "hold", {"after": moment})


def start_and_hold(stack: LocalStack, moment: int) -> subprocess.Popen[bytes]:
    process = stack.start("up", "--skip-preview")
    wait_until(lambda: process.poll() is not None or bool(stack.cloud.ask("GET", "hold")["holding"]), seconds=120)
    if process.poll() is not None and provider_in_use(TREE / "build" / "bin") != BUILT_IN:
        assert int(stack.cloud.ask("GET", "hold")["changes"]) < moment
        pytest.skip(f"not run: with Google's own provider an `up` makes fewer than {moment} changes")
    assert process.poll() is None, f"`up` ended before change {moment}"
    return process


def is_healed_by_up(stack: LocalStack, expected: Counter[str]) -> None:
    stack.on_stack("up", "--yes", "--skip-preview")
    stack.on_stack("preview", "--refresh", "--expect-no-changes")
    assert existing(stack) == expected


def test_a_local_cloud_killed_during_up_is_healed_by_starting_it_again(tmp_path: Path) -> None:
    with running_cloud(tmp_path / "cloud") as cloud:
        stack = LocalStack(cloud, tmp_path)
        process = stack.start("up", "--skip-preview")
        wait_until(lambda: len(stack.inventory()) >= 3)
        os.kill(stack.cloud.pid, signal.SIGKILL)
        assert process.wait(timeout=120) != 0
        with running_cloud(stack.cloud.state_dir, port=stack.cloud.port):
            recover(stack)
            stack.on_stack("up", "--yes", "--skip-preview")
            assert stack.changes("up", "--refresh") == {}


def recover(stack: LocalStack) -> str:
    command = ("gpujob", "recover", "--stack", "local", "--config-file", str(stack.config))
    return output_of(*command, cwd=Path.cwd(), environment=stack.environment)


def test_a_state_whose_side_file_was_cut_off_is_readable_again_after_recover(stack: LocalStack) -> None:
    side_file = next(stack.folder.rglob("local.json.attrs"))
    side_file.write_text("")
    stack.pulumi("stack", "export", "--stack", "local", expect=1)
    recover(stack)
    stack.pulumi("stack", "export", "--stack", "local")


def test_what_another_stack_of_the_same_names_made_is_not_taken_over(cloud: Cloud, tmp_path: Path) -> None:
    """The killed engine of `other` had asked for each of these; they were there, and are the stack `local`'s."""
    made = fresh(cloud, tmp_path / "made")
    made.on_stack("up", "--yes", "--skip-preview")
    before = existing(made)
    of_local = json.loads(made.pulumi("stack", "export", "--stack", "local"))["deployment"]

    wanting = LocalStack(cloud, tmp_path / "wanting")
    wanting.set("gpujob:notificationEmails", [EMAIL])
    # From a copy of the project's file: beside it, `stack init` writes a salt into a stack's file.
    (wanting.folder / "Pulumi.yaml").write_text((TREE / "Pulumi.yaml").read_text())
    pulumi("stack", "init", "other", cwd=wanting.folder, environment=wanting.environment)
    kinds = (*IMPORT_IDS, *NAMED_KINDS)
    creations = [
        {"type": "creating", "resource": {name: one[name] for name in ("urn", "type", "custom", "inputs", "parent")}}
        for one in of_local["resources"]
        if one["type"] in kinds
    ]
    assert {one["resource"]["type"] for one in creations} == set(kinds)
    of_other = json.dumps(creations).replace("urn:pulumi:local::", "urn:pulumi:other::")
    of_other = of_other.replace('"gpujob-stack": "local"', '"gpujob-stack": "other"')
    of_other = of_other.replace("Made by stack local.", "Made by stack other.")
    (file,) = wanting.folder.rglob("other.json")
    content = json.loads(file.read_text())
    content["checkpoint"]["latest"]["pending_operations"] = json.loads(of_other)
    file.write_text(json.dumps(content))

    command = ("gpujob", "recover", "--stack", "other", "--config-file", str(wanting.config))
    said = output_of(*command, cwd=Path.cwd(), environment=wanting.environment, expect=3)
    for name in ("job gpu-resilient-job", "bucket gpu-checkpoints-local-project", "repository gpujob"):
        assert f"{name} says that stack local made it, not other" in said
    assert "taken over into stack other" in said
    assert ": taken over\n" not in said
    left = json.loads(wanting.pulumi("stack", "export", "--stack", "other"))["deployment"]
    assert [one for one in left.get("resources") or [] if one["type"] in kinds] == []
    assert existing(made) == before
    assert made.changes("up", "--refresh") == {}
