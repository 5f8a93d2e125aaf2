"""Where the job is: the outputs of a Pulumi stack, read with `pulumi stack output`, and checked."""

import ipaddress
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from ops.errors import MisconfiguredError

LOCAL_HINT = 'For the local cloud, first load its environment: `eval "$(gpujob local env)"`.'


@dataclass(frozen=True)
class StackOutputs:
    """The exports of the program that the commands need. URLs in `endpoints` are empty on the real cloud."""

    project: str
    region: str
    job_name: str
    job_id: str
    """`projects/P/locations/L/jobs/J`."""
    checkpoint_url: str
    """`gs://bucket/<job>-task-0`: the checkpoint line of task 0."""
    endpoints: Mapping[str, str] = field(default_factory=dict[str, str])
    exposure_gpu_hours: float | None = None
    exposure_usd: float | None = None

    @property
    def is_local(self) -> bool:
        """Whether it all runs on this machine, without credentials."""
        return any(urlsplit(url).scheme == "http" for url in self.endpoints.values())


def tree() -> Path:
    """The Pulumi project's folder: the working directory or one above it, else the one beside this package."""
    here = Path.cwd()
    for folder in (here, *here.parents, Path(__file__).resolve().parents[1]):
        if (folder / "Pulumi.yaml").is_file():
            return folder
    raise MisconfiguredError(
        f"No Pulumi.yaml in {here} or above it, so there is no stack to ask where the job is. "
        "Nothing was changed. Run gpujob inside the project's folder."
    )


def read_outputs(stack: str | None) -> StackOutputs:
    """Outputs of `stack`, else of $GPUJOB_STACK, else of the stack selected in Pulumi. Raises MisconfiguredError."""
    stack = stack or os.environ.get("GPUJOB_STACK") or None
    return parse_outputs(_pulumi_outputs(stack, tree()), stack or "the selected stack")


def read_output(stack: str, name: str) -> str:
    """One output of a stack; empty if it has no such output. Raises MisconfiguredError if it cannot be asked."""
    return str(_pulumi_outputs(stack, tree()).get(name) or "")


def named_stack(stack: str | None) -> str:
    """`stack`, else $GPUJOB_STACK; never merely the selected one. Raises MisconfiguredError."""
    name = stack or os.environ.get("GPUJOB_STACK")
    if not name:
        raise MisconfiguredError("Which stack? Nothing was changed. Give --stack or set GPUJOB_STACK.")
    return name


def parse_outputs(outputs: Mapping[str, Any], stack: str) -> StackOutputs:
    """Checks presence and form of each output; `stack` is for the messages."""
    if not outputs:
        raise MisconfiguredError(
            f"Stack {stack} has no outputs, so nothing is deployed yet. Nothing was changed. "
            "Run `pulumi up` on it first."
        )
    names = ("project", "region", "jobName", "jobId", "checkpointUrl")
    missing = [name for name in names if not isinstance(outputs.get(name), str)]
    if missing:
        raise MisconfiguredError(
            f"Stack {stack} does not export {', '.join(missing)}: it was deployed by another or an older program. "
            "Nothing was changed. Run `pulumi up` on it and try again."
        )
    endpoints = cast("Mapping[str, str]", outputs.get("endpoints") or {})
    # With only some of them the others would go to Google: half a command in each cloud.
    absent = [name for name in ("run", "logging", "storage") if name not in endpoints]
    if endpoints and absent:
        raise MisconfiguredError(
            f"Stack {stack} has custom endpoints, but none for {', '.join(absent)}. Nothing was sent anywhere. "
            "Set all of them in the stack's file, or none, and run `pulumi up`."
        )
    for name, url in endpoints.items():
        check_endpoint(name, url)
    return StackOutputs(
        project=outputs["project"],
        region=outputs["region"],
        job_name=outputs["jobName"],
        job_id=outputs["jobId"],
        checkpoint_url=outputs["checkpointUrl"],
        endpoints=endpoints,
        exposure_gpu_hours=_number(outputs.get("exposureGpuHours")),
        exposure_usd=_number(outputs.get("exposureUsd")),
    )


def check_endpoint(name: str, url: str) -> None:
    """Plain http is for this machine only: anywhere else it would send what a network may read and change."""
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.netloc:
        return
    if parts.scheme == "http" and _is_loopback(parts.hostname or ""):
        return
    raise MisconfiguredError(
        f"The stack's endpoint for {name} is {url}, which is neither https nor on this machine (127.0.0.1, localhost). "
        f"Nothing was sent there. Correct the {name} custom endpoint in the stack's file and run `pulumi up`."
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _pulumi_outputs(stack: str | None, folder: Path) -> dict[str, Any]:
    command = ["pulumi", "stack", "output", "--json", "--non-interactive", *(["--stack", stack] if stack else [])]
    environment = {**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
        )
    except FileNotFoundError:
        raise MisconfiguredError(
            "No `pulumi` on PATH, so the stack cannot be asked where the job is. Nothing was changed. "
            f"Install Pulumi. {LOCAL_HINT}"
        ) from None
    except subprocess.TimeoutExpired:
        raise MisconfiguredError(
            f"`{' '.join(command)}` did not end within 120 s. Nothing was changed. "
            "Run it by hand to see what it waits for."
        ) from None
    if done.returncode != 0:
        raise MisconfiguredError(_explain(done.stderr.strip() or done.stdout.strip(), stack, " ".join(command)))
    return cast("dict[str, Any]", json.loads(done.stdout or "{}"))


def _explain(said: str, stack: str | None, command: str) -> str:
    """Pulumi's own words, and the way out that they call for."""
    hint = _hint(stack)
    if "no stack named" in said:
        backend = os.environ.get("PULUMI_BACKEND_URL", "that `pulumi whoami --verbose` shows")
        return (
            f"There is no stack {stack} in the backend {backend}. Nothing was changed. `pulumi stack ls` lists those "
            f"there are; `pulumi stack init {stack}` and `pulumi up` make it.{hint}"
        )
    if "no stack selected" in said or "--stack" in said or "select a stack" in said:
        return (
            "No stack is selected, so there is no job to speak of. Nothing was changed. Give --stack, "
            f"set GPUJOB_STACK, or run `pulumi stack select`.{hint}"
        )
    if "passphrase" in said:
        return (
            f"Pulumi cannot decrypt stack {stack or '(selected)'}: {said} Nothing was changed. Set "
            f"PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE.{hint}"
        )
    if "PULUMI_ACCESS_TOKEN" in said or "pulumi login" in said:
        return (
            "Pulumi is not logged in to a backend, so no stack can be read. Nothing was changed. Run "
            f"`pulumi login` with your team's backend or set PULUMI_BACKEND_URL.{hint}"
        )
    return f"`{command}` failed: {said} Nothing was changed. Run it by hand until it prints the stack's outputs."


def _hint(stack: str | None) -> str:
    """What else may be the way out, with a space before it."""
    if not is_local_backend(os.environ.get("PULUMI_BACKEND_URL", "")):
        return f" {LOCAL_HINT}"
    return " This shell has the local cloud's environment: use a fresh one." if stack not in {None, "local"} else ""


def is_local_backend(url: str) -> bool:
    """Whether it is the one that `gpujob local env` names."""
    from localcloud.toolchain.environment import STATE_FOLDER

    return url.startswith("file://") and url.rstrip("/").endswith(f"/{STATE_FOLDER}")
