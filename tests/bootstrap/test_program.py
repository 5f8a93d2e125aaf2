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
from bootstrap.settings import OPENERS, STACKS
from policies.rules import RULES
from policies.rules.rule import Resource
from tests.infra.conftest import Registered, run

TREE = Path(__file__).parents[2]
WORKFLOWS = sorted(TREE.glob(".github/workflows/*.yml"))
POOL = "projects/1/locations/global/workloadIdentityPools/github"
JOBS = f"principalSet://iam.googleapis.com/{POOL}/attribute.scope"
ENVIRONMENTS = {"dev": "acme-dev", "prod": "acme-prod", "pull-request": "acme-requests"}
PREVIEWS = {"preview": "acme-dev", "prod-preview": "acme-prod"}
"""Account that only looks -> the project that it looks at."""
RING = "projects/demo-project/locations/europe-west4/keyRings/gpujob"
STATE = "gpujob-state-demo-project"
LABELS = {"app": "gpujob"}


def home(account: str) -> str:
    return ENVIRONMENTS.get(account.removeprefix("deploy-"), "demo-project")


def key(environment: str) -> str:
    return f"{RING}/cryptoKeys/pulumi-{environment}"


def email(account: str) -> str:
    return f"gpujob-{account}@{home(account)}.iam.gserviceaccount.com"


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Registered:
    config = {
        "repository": "acme/gpujob",
        "repositoryId": "123456789",
        "devProject": "acme-dev",
        "prodProject": "acme-prod",
        "pullRequestProject": "acme-requests",
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
            "google.subject": (
                "'repository:' + assertion.repository_id + ':run:' + assertion.run_id + ':' + assertion.run_attempt"
            ),
            "attribute.scope": (
                "!has(assertion.environment) && assertion.ref == 'refs/heads/main' ? 'main' : "
                "!has(assertion.environment) && assertion.event_name == 'pull_request' ? 'none' : "
                "!has(assertion.environment) ? 'refused' : "
                "assertion.environment in ['dev', 'prod'] && assertion.ref == 'refs/heads/main' "
                "? assertion.environment : "
                "assertion.environment in ['prod-preview', 'pull-request'] && assertion.event_name == 'pull_request' "
                "? assertion.environment : "
                "'refused'"
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
}
for environment in ENVIRONMENTS:
    EXPECTED["gcp:kms/cryptoKey:CryptoKey", f"state-key-{environment}"] = {
        "keyRing": RING,
        "name": f"pulumi-{environment}",
        "purpose": "ENCRYPT_DECRYPT",
        "rotationPeriod": "7776000s",
        "labels": LABELS,
    }


def expect_account(name: str, shown: str, acting: dict[str, str], opens: tuple[str, ...]) -> None:
    account, member = email(name), f"serviceAccount:{email(name)}"
    full = f"projects/{home(name)}/serviceAccounts/{account}"
    writes = name.startswith("deploy-")
    EXPECTED["gcp:serviceaccount/account:Account", f"{name}-account"] = {
        "project": home(name),
        "accountId": f"gpujob-{name}",
        "displayName": shown,
    }
    for short, scope in acting.items():
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
        EXPECTED["gcp:kms/cryptoKeyIAMMember:CryptoKeyIAMMember", f"state-key-{label}-{label}"] = {
            "cryptoKeyId": key(label),
            "role": "roles/cloudkms.cryptoKeyEncrypterDecrypter",
            "member": member,
        }
    for sealed in opens:
        EXPECTED["gcp:kms/cryptoKeyIAMMember:CryptoKeyIAMMember", f"state-key-{sealed}-{label}"] = {
            "cryptoKeyId": key(sealed),
            "role": "roles/cloudkms.cryptoKeyDecrypter",
            "member": member,
        }


expect_account("preview", "gpujob: looks, changes nothing", {"pull-requests": "none", "main": "main"}, ("dev",))
expect_account(
    "prod-preview",
    "gpujob: looks at prod, changes nothing",
    {"its-environment": "prod-preview", "main": "main"},
    ("prod", "dev"),
)
for environment in ENVIRONMENTS:
    expect_account(
        f"deploy-{environment}",
        f"gpujob: deploys from the environment {environment}",
        {"its-environment": environment},
        ("dev",) if environment == "prod" else (),
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
    *((project, role, account) for account, project in PREVIEWS.items() for role in LOOKS),
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
    *((project, api) for project in ("acme-dev", "acme-prod", "acme-requests") for api in EVERYWHERE),
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
    """Cloud Run asks that of the deployer, besides of its own agent. Each builds its own; prod takes dev's."""
    grants = registered.of_type("gcp:projects/iAMMember:IAMMember").values()
    readers = {(one["project"], one["member"]) for one in grants if "artifactregistry" in one["role"]}
    built_in = {**ENVIRONMENTS, "prod": ENVIRONMENTS["dev"]}
    for name, project in built_in.items():
        assert (project, f"serviceAccount:{email(f'deploy-{name}')}") in readers


def openers(registered: Registered, environment: str) -> set[str]:
    """Accounts that can open what that environment's key has sealed."""
    grants = registered.of_type("gcp:kms/cryptoKeyIAMMember:CryptoKeyIAMMember").values()
    return {one["member"].partition(":")[2] for one in grants if one["cryptoKeyId"] == key(environment)}


def accounts_of(registered: Registered, claims: dict[str, str]) -> set[str]:
    """Accounts that a job with these claims may act as."""
    provider = registered.only("gcp:iam/workloadIdentityPoolProvider:WorkloadIdentityPoolProvider")
    scope = evaluated(provider["attributeMapping"]["attribute.scope"], claims)
    grants = registered.of_type("gcp:serviceaccount/iAMMember:IAMMember").values()
    return {one["serviceAccountId"].rpartition("/")[2] for one in grants if one["member"].endswith(f"/{scope}")}


PULL_REQUEST = {"event_name": "pull_request", "ref": "refs/pull/1/merge"}


@pytest.mark.parametrize("environment", ["", "dev", "prod", "pull-request", "anything"])
def test_what_is_sealed_in_prods_state_is_opened_by_no_pull_request_that_nobody_let(
    registered: Registered, environment: str
) -> None:
    """Only the environment prod-preview, which has required reviewers, lends the account that can."""
    claims = {**PULL_REQUEST, **({"environment": environment} if environment else {})}
    assert accounts_of(registered, claims) & openers(registered, "prod") == set()
    let = accounts_of(registered, {**PULL_REQUEST, "environment": "prod-preview"})
    assert let == {email("prod-preview")} <= openers(registered, "prod")


def test_an_environments_key_is_open_to_those_who_deploy_or_preview_it_and_to_who_takes_its_image(
    registered: Registered,
) -> None:
    assert openers(registered, "pull-request") == {email("deploy-pull-request")}
    assert openers(registered, "prod") == {email("deploy-prod"), email("prod-preview")}
    of_dev = ("deploy-dev", "deploy-prod", "preview", "prod-preview")
    assert openers(registered, "dev") == {email(one) for one in of_dev}
    assert set(OPENERS) <= set(ENVIRONMENTS)


@pytest.mark.parametrize(
    "claims",
    [
        {"event_name": "push", "ref": "refs/heads/mine"},
        {"event_name": "workflow_dispatch", "ref": "refs/heads/mine"},
        *(
            {"event_name": event, "ref": "refs/heads/mine", "environment": environment}
            for event in ("push", "workflow_dispatch")
            for environment in ("dev", "prod", "pull-request", "prod-preview", "anything")
        ),
    ],
)
def test_a_branch_without_a_pull_request_gets_no_account(registered: Registered, claims: dict[str, str]) -> None:
    assert accounts_of(registered, claims) == set()


def test_code_of_a_pull_request_can_act_as_no_account_that_deploys_dev_or_prod(registered: Registered) -> None:
    """Whoever administers a project's accounts can act as any of them; pull requests have a project of their own."""
    accounts = registered.of_type("gcp:serviceaccount/account:Account").values()
    grants = registered.of_type("gcp:projects/iAMMember:IAMMember").values()
    mine = f"serviceAccount:{email('deploy-pull-request')}"
    administered = {one["project"] for one in grants if one["member"] == mine and "serviceAccount" in one["role"]}
    assert {one["accountId"] for one in accounts if one["project"] in administered} == {"gpujob-deploy-pull-request"}


def test_the_subject_of_the_longest_names_is_within_what_google_takes(registered: Registered) -> None:
    """127 bytes, else no token is exchanged. GitHub's own subject would hold both names."""
    mapping = registered.only("gcp:iam/workloadIdentityPoolProvider:WorkloadIdentityPoolProvider")["attributeMapping"]
    numbers = {"repository_id": "9" * 20, "run_id": "9" * 20, "run_attempt": "9" * 10}
    long = {"repository": "a" * 39 + "/" + "b" * 100, "ref": "refs/heads/" + "c" * 244}
    claims = {**numbers, **long, "sub": f"repo:{long['repository']}:ref:{long['ref']}"}
    assert len(evaluated(mapping["google.subject"], claims).encode()) <= 127 < len(claims["sub"])


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
    # What previews prod reads a variable of the repository, as the nightly comparison does, which is in no environment.
    assert {*of_environments, "prod-preview"} == named


def test_exports_the_values_and_the_commands_to_put_them_in_place(registered: Registered) -> None:
    outputs = registered.outputs
    assert outputs["variables"] == {
        "GCP_WORKLOAD_IDENTITY_PROVIDER": f"{POOL}/providers/repository",
        "GCP_PREVIEW_ACCOUNT": email("preview"),
        "GCP_PROD_PREVIEW_ACCOUNT": email("prod-preview"),
        "PULUMI_STATE_URL": f"gs://{STATE}",
        "PULL_REQUEST_PROJECT": "acme-requests",
        "PULL_REQUEST_SECRETS_PROVIDER": f"gcpkms://{key('pull-request')}",
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
        f"pulumi stack init dev --secrets-provider 'gcpkms://{key('dev')}'",
        f"pulumi stack init prod --secrets-provider 'gcpkms://{key('prod')}'",
    ]


SCOPES: list[tuple[dict[str, str], str]] = [
    (PULL_REQUEST, "none"),
    ({"ref": "refs/heads/main"}, "main"),
    ({"event_name": "schedule", "ref": "refs/heads/main"}, "main"),
    ({"event_name": "push", "ref": "refs/heads/mine"}, "refused"),
    ({"environment": "dev", "ref": "refs/heads/main"}, "dev"),
    ({"environment": "prod", "ref": "refs/heads/main"}, "prod"),
    ({"environment": "prod", "ref": "refs/heads/mine"}, "refused"),
    ({"environment": "dev", **PULL_REQUEST}, "refused"),
    ({"environment": "pull-request", **PULL_REQUEST}, "pull-request"),
    ({"environment": "prod-preview", **PULL_REQUEST}, "prod-preview"),
    # A pull request that was merged and closed: GitHub says the branch that it went into.
    ({"environment": "pull-request", "event_name": "pull_request", "ref": "refs/heads/main"}, "pull-request"),
    ({"environment": "pull-request", "event_name": "push", "ref": "refs/heads/main"}, "refused"),
    ({"environment": "of-nobody", **PULL_REQUEST}, "refused"),
]


@pytest.mark.parametrize(("claims", "scope"), SCOPES)
def test_a_branch_that_names_the_environment_of_production_gets_no_account(claims: dict[str, str], scope: str) -> None:
    mapping = EXPECTED["gcp:iam/workloadIdentityPoolProvider:WorkloadIdentityPoolProvider", "github-provider"]
    assert evaluated(mapping["attributeMapping"]["attribute.scope"], {"event_name": "push", **claims}) == scope


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
