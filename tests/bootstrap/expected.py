"""The whole inputs of everything that the bootstrap registers for acme."""

from __future__ import annotations

from typing import Any

from bootstrap.roles import DEPLOYS, LOOKS, own_state
from bootstrap.settings import STACKS
from tests.bootstrap.acme import ENVIRONMENTS, JOBS, LABELS, PREVIEWS, RING, STATE, email, home, key

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
