"""Runs the program, or one component, against Pulumi's mocks and keeps every input that it registers."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulumi
import pytest

ROOT = Path(__file__).parents[2]
DIGEST = "sha256:" + "b" * 64


@dataclass
class Registered:
    """What was registered: (type, name) -> whole inputs, and what stacks export."""

    inputs: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    options: dict[tuple[str, str], pulumi.ResourceOptions] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)

    def of_type(self, token: str) -> dict[str, dict[str, Any]]:
        return {name: inputs for (kind, name), inputs in self.inputs.items() if kind == token}

    def only(self, token: str) -> dict[str, Any]:
        (inputs,) = self.of_type(token).values()
        return inputs


class _Cloud(pulumi.runtime.Mocks):
    """Answers as Google's provider would, in what the program goes on to use."""

    def __init__(self, registered: Registered) -> None:
        self.registered = registered

    def new_resource(self, args: pulumi.runtime.MockResourceArgs):
        inputs = {name: value for name, value in args.inputs.items() if name != "__provider"}
        self.registered.inputs[args.typ, args.name] = inputs
        return self._id(args.typ, args.name, inputs), {**inputs, **self._answers(args.typ, inputs)}

    def call(self, args: pulumi.runtime.MockCallArgs):
        return {}

    def _id(self, kind: str, name: str, inputs: dict[str, Any]) -> str:
        if kind == "gcp:cloudrunv2/job:Job":
            return f"projects/{inputs['project']}/locations/{inputs['location']}/jobs/{inputs['name']}"
        if kind == "gcp:kms/keyRing:KeyRing":
            return f"projects/{inputs['project']}/locations/{inputs['location']}/keyRings/{inputs['name']}"
        if kind == "gcp:kms/cryptoKey:CryptoKey":
            return f"{inputs['keyRing']}/cryptoKeys/{inputs['name']}"
        return f"{name}-id"

    def _answers(self, kind: str, inputs: dict[str, Any]) -> dict[str, Any]:
        match kind:
            case "gcp:serviceaccount/account:Account":
                email = f"{inputs['accountId']}@{inputs['project']}.iam.gserviceaccount.com"
                name = f"projects/{inputs['project']}/serviceAccounts/{email}"
                return {"email": email, "member": f"serviceAccount:{email}", "name": name}
            case "gcp:storage/bucket:Bucket":
                return {"url": f"gs://{inputs['name']}"}
            case "gcp:artifactregistry/repository:Repository":
                return {"name": inputs["repositoryId"]}
            case "gcp:monitoring/notificationChannel:NotificationChannel":
                address = inputs["labels"]["email_address"]
                return {"name": f"projects/{inputs['project']}/notificationChannels/{address}"}
            case "pulumi-python:dynamic/gpujob:BuiltImage":
                return {"image": f"{inputs['repositoryUrl']}/worker@{DIGEST}", "digest": DIGEST}
            case _:
                return _of_federation(inputs)


def _of_federation(inputs: dict[str, Any]) -> dict[str, Any]:
    if "workloadIdentityPoolId" not in inputs:
        return {}
    pool = f"projects/1/locations/global/workloadIdentityPools/{inputs['workloadIdentityPoolId']}"
    provider = inputs.get("workloadIdentityPoolProviderId")
    return {"name": f"{pool}/providers/{provider}" if provider else pool}


def run(
    monkeypatch: pytest.MonkeyPatch, program: Callable[[], Any], *, namespace: str = "gpujob", **config: str
) -> Registered:
    """Run `program` as a stack whose configuration is `config` (in `namespace`), in demo-project, europe-west4."""
    registered = Registered()
    pulumi.runtime.set_mocks(_Cloud(registered), project="gpujob", stack="any")
    ours = {f"{namespace}:{name}": value for name, value in config.items()}
    pulumi.runtime.set_all_config({"gcp:project": "demo-project", "gcp:region": "europe-west4", **ours})
    monkeypatch.setattr(pulumi, "export", registered.outputs.__setitem__)
    register = pulumi.resource.register_resource

    def keep_options(resource, kind, name, *rest):
        registered.options[kind, name] = rest[4]
        return register(resource, kind, name, *rest)

    monkeypatch.setattr(pulumi.resource, "register_resource", keep_options)
    pulumi.runtime.test(lambda: _with_outputs(program, registered))()
    return registered


def _with_outputs(program: Callable[[], Any], registered: Registered) -> pulumi.Output[None]:
    program()
    return pulumi.Output.all(**registered.outputs).apply(registered.outputs.update)


@pytest.fixture
def deploy(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Registered]:
    """`deploy(gpuType=...)`: the whole program with these keys of our namespace."""
    program = lambda: runpy.run_path(str(ROOT / "__main__.py"), run_name="__main__")  # noqa: E731
    return lambda **config: run(monkeypatch, program, **config)
