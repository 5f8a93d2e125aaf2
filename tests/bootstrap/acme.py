"""The organisation whose bootstrap is tested: its projects, accounts and keys."""

from __future__ import annotations

from pathlib import Path

TREE = Path(__file__).parents[2]
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
