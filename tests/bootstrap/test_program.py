"""The whole inputs of everything that the bootstrap registers, and what is not registered."""

from __future__ import annotations

import importlib
import inspect
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from bootstrap.roles import DEPLOYS, LOOKS, PULUMI_PROJECT, own_state
from bootstrap.settings import STACKS
from policies.rules import RULES
from policies.rules.rule import Resource
from tests.infra.conftest import Registered, run

TREE = Path(__file__).parents[2]
WORKFLOWS = sorted(TREE.glob(".github/workflows/*.yml"))
POOL = "projects/1/locations/global/workloadIdentityPools/github"
JOBS = f"principalSet://iam.googleapis.com/{POOL}/attribute.scope"
ENVIRONMENTS = {"dev": "acme-dev", "prod": "acme-prod", "pull-request": "acme-dev"}
KEY = "projects/demo-project/locations/europe-west4/keyRings/gpujob/cryptoKeys/pulumi"
STATE = "gpujob-state-demo-project"
LABELS = {"app": "gpujob"}


def home(account: str) -> str:
    return ENVIRONMENTS.get(account.removeprefix("deploy-"), "demo-project")


def email(account: str) -> str:
    return f"gpujob-{account}@{home(account)}.iam.gserviceaccount.com"


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Registered:
    config = {
        "repository": "acme/gpujob",
        "repositoryId": "123456789",
        "devProject": "acme-dev",
        "prodProject": "acme-prod",
    }
    program = lambda: runpy.run_path(str(TREE / "bootstrap" / "__main__.py"), run_name="__main__")  # noqa: E731
    return run(monkeypatch, program, namespace="gpujob-bootstrap", **config)


EXPECTED: dict[tuple[str, str], dict[str, Any]] = {
    ("gcp:iam/workloadIdentityPool:WorkloadIdentityPool", "github-pool"): {
        "project": "demo-project",
        "workloadIdentityPoolId": "github",
        "displayName": "GitHub Actions",
    },
    ("gcp:iam/workloadIdentityPoolProvider:WorkloadIdentityPoolProvider", "github-provider"): {
        "project": "demo-project",
        "workloadIdentityPoolId": "github",
        "workloadIdentityPoolProviderId": "repository",
        "displayName": "acme/gpujob",
        "attributeCondition": (
            "assertion.repository == 'acme/gpujob' && assertion.repository_id == '123456789' "
            "&& assertion.event_name in ['pull_request', 'push', 'schedule', 'workflow_dispatch']"
        ),
        "attributeMapping": {
            "google.subject": "assertion.sub",
            "attribute.scope": (
                "!has(assertion.environment) ? 'none' : "
                "(assertion.environment in ['dev', 'prod'] && assertion.ref != 'refs/heads/main') ? 'refused' : "
                "assertion.environment"
            ),
        },
        "oidc": {"issuerUri": "https://token.actions.githubusercontent.com"},
    },
    ("gcp:storage/bucket:Bucket", "state-bucket"): {
        "project": "demo-project",
        "name": STATE,
        "location": "EUROPE-WEST4",
        "forceDestroy": False,
        "uniformBucketLevelAccess": True,
        "publicAccessPrevention": "enforced",
        "versioning": {"enabled": True},
        "softDeletePolicy": {"retentionDurationSeconds": 2_592_000},
        "lifecycleRules": [
            {"action": {"type": "Delete"}, "condition": {"numNewerVersions": 50, "daysSinceNoncurrentTime": 90}}
        ],
        "labels": LABELS,
    },
    ("gcp:kms/keyRing:KeyRing", "state-ring"): {
        "project": "demo-project",
        "location": "europe-west4",
        "name": "gpujob",
    },
    ("gcp:kms/cryptoKey:CryptoKey", "state-key"): {
        "keyRing": KEY.rpartition("/cryptoKeys")[0],
        "name": "pulumi",
        "purpose": "ENCRYPT_DECRYPT",
        "rotationPeriod": "7776000s",
        "labels": LABELS,
    },
}
PREVIEW = "serviceAccount:" + email("preview")


def expect_account(name: str, shown: str, scope: str, short: str, reader: str) -> None:
    account, member = email(name), f"serviceAccount:{email(name)}"
    full = f"projects/{home(name)}/serviceAccounts/{account}"
    writes = reader == "writer"
    EXPECTED["gcp:serviceaccount/account:Account", f"{name}-account"] = {
        "project": home(name),
        "accountId": f"gpujob-{name}",
        "displayName": shown,
    }
    EXPECTED["gcp:serviceaccount/iAMMember:IAMMember", f"{name}-acting-{short}"] = {
        "serviceAccountId": full,
        "role": "roles/iam.workloadIdentityUser",
        "member": f"{JOBS}/{scope}",
    }
    label = name.removeprefix("deploy-")
    EXPECTED["gcp:storage/bucketIAMMember:BucketIAMMember", f"state-bucket-reader-{label}"] = {
        "bucket": STATE,
        "role": "roles/storage.objectViewer",
        "member": member,
    }
    if writes:
        EXPECTED["gcp:storage/bucketIAMMember:BucketIAMMember", f"state-bucket-writer-{label}"] = {
            "bucket": STATE,
            "role": "roles/storage.objectUser",
            "member": member,
            "condition": {"title": "its own state", "expression": own_state(STATE, STACKS[label]).expression},
        }
    EXPECTED["gcp:kms/cryptoKeyIAMMember:CryptoKeyIAMMember", f"state-key-{reader}-{label}"] = {
        "cryptoKeyId": KEY,
        "role": "roles/cloudkms.cryptoKeyEncrypterDecrypter" if writes else "roles/cloudkms.cryptoKeyDecrypter",
        "member": member,
    }


expect_account("preview", "gpujob: looks, changes nothing", "none", "jobs-in-no-environment", "reader")
for environment in ENVIRONMENTS:
    expect_account(
        f"deploy-{environment}",
        f"gpujob: deploys from the environment {environment}",
        environment,
        "its-environment",
        "writer",
    )

CONDITIONS = {
    "roles/resourcemanager.projectIamAdmin": {
        "title": "only the build's role",
        "expression": (
            "api.getAttribute('iam.googleapis.com/modifiedGrantsByRole', []).hasOnly(['roles/logging.logWriter'])"
        ),
    },
    "roles/storage.admin": {
        "title": "not the state",
        "expression": (
            f"resource.name != 'projects/_/buckets/{STATE}' && !resource.name.startsWith('projects/_/buckets/{STATE}/')"
        ),
    },
}
GRANTS = [
    *((project, role, "preview") for project in ("acme-dev", "acme-prod") for role in LOOKS),
    *((project, role, f"deploy-{name}") for name, project in ENVIRONMENTS.items() for role in DEPLOYS),
]
for project, role, account in GRANTS:
    condition = {"condition": CONDITIONS[role]} if role in CONDITIONS else {}
    name = f"{account}-{project}-{role.removeprefix('roles/').replace('.', '-')}"
    EXPECTED["gcp:projects/iAMMember:IAMMember", name] = {
        "project": project,
        "role": role,
        "member": f"serviceAccount:{email(account)}",
        **condition,
    }
EXPECTED["gcp:projects/iAMMember:IAMMember", "deploy-prod-acme-dev-pulls"] = {
    "project": "acme-dev",
    "role": "roles/artifactregistry.reader",
    "member": f"serviceAccount:{email('deploy-prod')}",
}
EVERYWHERE = ("cloudkms", "cloudresourcemanager", "iam", "iamcredentials", "serviceusage")
LOOKED_AT = ("artifactregistry", "logging", "monitoring", "run", "secretmanager")
SERVICES = [
    *(("demo-project", api) for api in (*EVERYWHERE, *LOOKED_AT, "storage", "sts")),
    *((project, api) for project in ("acme-dev", "acme-prod") for api in EVERYWHERE),
]
EXPECTED |= {
    ("gcp:projects/service:Service", f"services-{project}-{api}"): {
        "project": project,
        "service": f"{api}.googleapis.com",
        "disableOnDestroy": False,
    }
    for project, api in SERVICES
}


def test_registers_this_whole_and_nothing_else(registered: Registered) -> None:
    made = {which: inputs for which, inputs in registered.inputs.items() if not which[0].startswith("gpujob:")}
    assert made == EXPECTED


def test_every_type_is_one_that_the_sdk_registers() -> None:
    known: set[str] = set()
    for name in ("iam", "kms", "projects", "serviceaccount", "storage"):
        module = importlib.import_module(f"pulumi_gcp.{name}")
        hasattr(module, "anything")  # the SDK's modules are empty until something is looked up in them
        classes = (resource for _, resource in inspect.getmembers(module, inspect.isclass))
        known |= {str(getattr(resource, "pulumi_type", "")) for resource in classes}
    assert {kind for kind, _ in EXPECTED} <= known


def test_the_preview_account_has_no_role_that_changes_anything() -> None:
    changing = re.compile(r"admin|editor|writer|user|developer|owner|creator|publisher|invoker", re.IGNORECASE)
    assert [role for role in LOOKS if changing.search(role.partition("roles/")[2])] == []


def test_no_account_holds_a_basic_role_or_reads_objects_in_a_project() -> None:
    assert not {"roles/owner", "roles/editor", "roles/viewer", "roles/storage.objectViewer"} & {*LOOKS, *DEPLOYS}


def test_no_account_may_change_accounts_where_that_of_another_project_is(registered: Registered) -> None:
    """Whoever administers a project's accounts can act as any of them."""
    accounts = registered.of_type("gcp:serviceaccount/account:Account").values()
    homes = {f"serviceAccount:{one['accountId']}@{one['project']}.iam.gserviceaccount.com": one for one in accounts}
    for grant in registered.of_type("gcp:projects/iAMMember:IAMMember").values():
        if grant["role"] == "roles/iam.serviceAccountAdmin":
            assert homes[grant["member"]]["project"] == grant["project"]
    assert homes[f"serviceAccount:{email('deploy-prod')}"]["project"] == "acme-prod"


def may_write(environment: str, name: str) -> bool:
    """Whether the deploy account of that environment may write an object of the state bucket."""
    condition = own_state(STATE, STACKS[environment]).expression
    assert re.fullmatch(
        r"resource\.name\.startsWith\('[^']+'\)( \|\| resource\.name\.startsWith\('[^']+'\)){3}", condition
    )
    resource = f"projects/_/buckets/{STATE}/objects/{name}"
    return any(resource.startswith(beginning) for beginning in re.findall(r"'([^']+)'", condition))


@pytest.mark.parametrize(
    ("stack", "environment"), [("dev", "dev"), ("prod", "prod"), ("pr-1", "pull-request"), ("pr-12", "pull-request")]
)
def test_an_account_writes_the_state_of_its_own_stacks_and_of_no_other(stack: str, environment: str) -> None:
    """Code in the state is run by the stack's next update, with the rights of whoever updates it."""
    names = [
        f".pulumi/stacks/gpujob/{stack}.json",
        f".pulumi/stacks/gpujob/{stack}.json.bak",
        f".pulumi/history/gpujob/{stack}/{stack}-1.history.json",
        f".pulumi/backups/gpujob/{stack}/{stack}.1.json",
        f".pulumi/locks/organization/gpujob/{stack}/1.json",
    ]
    for name in names:
        assert {one for one in ENVIRONMENTS if may_write(one, name)} == {environment}, name


@pytest.mark.parametrize(
    "name", [".pulumi/meta.yaml", ".pulumi/stacks/other/dev.json", ".pulumi/stacks/gpujob/dev-2.json", "dev.json"]
)
def test_what_belongs_to_no_stack_of_theirs_no_account_writes(name: str) -> None:
    assert not any(may_write(environment, name) for environment in ENVIRONMENTS)


def test_the_state_is_that_of_this_pulumi_project() -> None:
    assert yaml.safe_load((TREE / "Pulumi.yaml").read_text())["name"] == PULUMI_PROJECT
    assert set(STACKS) == set(ENVIRONMENTS)


def test_whoever_deploys_an_image_may_read_it(registered: Registered) -> None:
    """Cloud Run asks that of the deployer, besides of its own agent."""
    grants = registered.of_type("gcp:projects/iAMMember:IAMMember").values()
    readers = {one["member"] for one in grants if one["project"] == "acme-dev" and "artifactregistry" in one["role"]}
    assert {f"serviceAccount:{email(f'deploy-{name}')}" for name in ENVIRONMENTS} <= readers


def test_state_and_key_cannot_just_be_deleted(registered: Registered) -> None:
    kept = ("gcp:storage/bucket:Bucket", "gcp:kms/keyRing:KeyRing", "gcp:kms/cryptoKey:CryptoKey")
    assert all(options.protect for (kind, _), options in registered.options.items() if kind in kept)


def test_every_policy_is_satisfied(registered: Registered) -> None:
    found = [
        message
        for (kind, name), inputs in registered.inputs.items()
        for rule in RULES
        if rule.applies_to(kind)
        for message in rule.violations(
            Resource(
                kind,
                f"urn:pulumi:prod::gpujob-bootstrap::{kind}::{name}",
                inputs,
                protect=bool(registered.options[kind, name].protect),
                options={option.name: option.default for option in rule.options},
            )
        )
    ]
    assert found == []


def test_exports_exactly_the_variables_that_the_workflows_read(registered: Registered) -> None:
    read = {name for file in WORKFLOWS for name in re.findall(r"\bvars\.(\w+)", file.read_text())}
    outputs = registered.outputs
    of_environments = outputs["environmentVariables"]
    assert read == {*outputs["variables"], *(name for values in of_environments.values() for name in values)}
    named = {name for file in WORKFLOWS for name in re.findall(r"^ +environment: (\S+)$", file.read_text(), re.M)}
    assert set(of_environments) == named


def test_exports_the_values_and_the_commands_to_put_them_in_place(registered: Registered) -> None:
    outputs = registered.outputs
    assert outputs["variables"] == {
        "GCP_WORKLOAD_IDENTITY_PROVIDER": f"{POOL}/providers/repository",
        "GCP_PREVIEW_ACCOUNT": email("preview"),
        "PULUMI_STATE_URL": f"gs://{STATE}",
        "PULUMI_SECRETS_PROVIDER": f"gcpkms://{KEY}",
    }
    assert outputs["environmentVariables"] == {
        name: {"GCP_DEPLOY_ACCOUNT": email(f"deploy-{name}")} for name in ENVIRONMENTS
    }
    assert outputs["variableCommands"] == [
        *(f"gh variable set {name} --repo acme/gpujob --body '{v}'" for name, v in outputs["variables"].items()),
        *(
            f"gh variable set GCP_DEPLOY_ACCOUNT --repo acme/gpujob --env {name} --body '{email(f'deploy-{name}')}'"
            for name in ENVIRONMENTS
        ),
    ]
    assert outputs["stateCommands"] == [
        f"pulumi login gs://{STATE}",
        f"pulumi stack init dev --secrets-provider 'gcpkms://{KEY}'",
        f"pulumi stack init prod --secrets-provider 'gcpkms://{KEY}'",
    ]


SCOPES: list[tuple[dict[str, str], str]] = [
    ({"ref": "refs/pull/1/merge"}, "none"),
    ({"ref": "refs/heads/main"}, "none"),
    ({"environment": "dev", "ref": "refs/heads/main"}, "dev"),
    ({"environment": "prod", "ref": "refs/heads/main"}, "prod"),
    ({"environment": "prod", "ref": "refs/heads/mine"}, "refused"),
    ({"environment": "dev", "ref": "refs/pull/1/merge"}, "refused"),
    ({"environment": "pull-request", "ref": "refs/pull/1/merge"}, "pull-request"),
]


@pytest.mark.parametrize(("claims", "scope"), SCOPES)
def test_a_branch_that_names_the_environment_of_production_gets_no_account(claims: dict[str, str], scope: str) -> None:
    mapping = EXPECTED["gcp:iam/workloadIdentityPoolProvider:WorkloadIdentityPoolProvider", "github-provider"]
    assert evaluated(mapping["attributeMapping"]["attribute.scope"], claims) == scope


def evaluated(expression: str, claims: dict[str, str]) -> str:
    """The value of `A ? B : (C) ? D : E`, which in CEL, as here, takes the rest as its last part."""
    condition, _, rest = expression.partition(" ? ")
    if not rest:
        return str(truth(expression, claims))
    value, _, otherwise = rest.partition(" : ")
    return str(truth(value, claims)) if truth(condition, claims) else evaluated(otherwise, claims)


def truth(expression: str, claims: dict[str, str]) -> Any:
    python = re.sub(r"has\(assertion\.(\w+)\)", r"('\1' in claims)", expression)
    python = re.sub(r"assertion\.(\w+)", r"claims['\1']", python).replace("&&", "and")
    python = re.sub(r"!(?!=)", "not ", python)
    return eval(python, {"claims": claims})  # noqa: S307 - an expression of this tree


def test_a_wrong_setting_ends_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    program: Callable[[], Any] = lambda: runpy.run_path(  # noqa: E731
        str(TREE / "bootstrap" / "__main__.py"), run_name="__main__"
    )
    with pytest.raises(pulumi.RunError, match="2 settings of this stack cannot work; nothing was created"):
        run(monkeypatch, program, namespace="gpujob-bootstrap")
