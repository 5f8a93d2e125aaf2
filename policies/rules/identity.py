"""Who the job is: an account of its own, and no key of any account that could be copied and outlive it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .rule import Level, Resource, Rule, Severity
from .tokens import ACCOUNT_KEY, HMAC_KEY, JOB, one_of

_ACCOUNT = "template.template.serviceAccount"
_DEFAULT = re.compile(r"\d+-compute@developer\.gserviceaccount\.com|.+@appspot\.gserviceaccount\.com")


def _own_account(job: Resource) -> Iterator[str]:
    account = job.get(_ACCOUNT)
    if not account:
        yield f"{_ACCOUNT} is not set, so the job runs as the project's default compute account."
    elif _DEFAULT.fullmatch(str(account)):
        yield f"{_ACCOUNT} is {account}, a default account that everything else in the project shares."


def _no_key(key: Resource) -> Iterator[str]:
    # Nothing is read: the account may be new, and its key must be refused in the preview already.
    kind = "an HMAC key" if key.type == HMAC_KEY else "a private key"
    yield f"This makes {kind} of a service account."


IDENTITY_RULES = (
    Rule(
        name="job-has-own-account",
        types=JOB,
        severity=Severity.HIGH,
        level=Level.MANDATORY,
        description="A job runs as a service account of its own, never as a default account.",
        remediation=(
            "Make a serviceaccount.Account for this job, grant it what the job uses and set it as service_account."
        ),
        check=_own_account,
    ),
    Rule(
        name="no-account-keys",
        types=one_of(ACCOUNT_KEY, HMAC_KEY),
        severity=Severity.CRITICAL,
        level=Level.MANDATORY,
        description="No keys of service accounts: they are copied, do not expire and lie in Pulumi's state.",
        remediation=(
            "Remove it: what runs on Google Cloud gets tokens by itself; elsewhere use workload identity federation."
        ),
        check=_no_key,
        covers=("CIS 1.4",),
    ),
)
