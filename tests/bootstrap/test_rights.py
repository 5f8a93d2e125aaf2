"""Which account may do what: who changes, writes and opens which stack's things, and which job gets which account."""

from __future__ import annotations

import re

import pytest
import yaml

from bootstrap.roles import DEPLOYS, LOOKS, PULUMI_PROJECT, own_state
from bootstrap.settings import OPENERS, STACKS
from tests.bootstrap.acme import ENVIRONMENTS, STATE, TREE, email, key
from tests.bootstrap.claims import evaluated
from tests.bootstrap.expected import EXPECTED
from tests.infra.conftest import Registered


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
