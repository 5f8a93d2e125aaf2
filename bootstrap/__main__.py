"""What a person with owner rights declares once, read from top to bottom. Afterwards continuous integration deploys."""

import sys
from pathlib import Path

import pulumi

# The engine runs this file in its own folder; its modules are those of the tree.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bootstrap.account import Account, AccountArgs
from bootstrap.federation import MAIN, PROD_PREVIEW, PULL_REQUEST, Federation, FederationArgs
from bootstrap.outputs import exports
from bootstrap.roles import DEPLOYS, LOOKS
from bootstrap.services import Services
from bootstrap.settings import LABELS, OPENERS, STACKS, load
from bootstrap.state import State, StateArgs, Writer

settings = load()

services = Services("services", settings.project, settings.projects)
after_services = pulumi.ResourceOptions(depends_on=services.enabled)

federation = Federation(
    "github",
    FederationArgs(settings.project, settings.pool_id, settings.repository, settings.repository_id),
    after_services,
)
preview = Account(
    "preview",
    AccountArgs(
        project=settings.project,
        account_id="gpujob-preview",
        display_name="gpujob: looks, changes nothing",
        roles=LOOKS,
        projects=(settings.dev_project,),
        state_bucket=settings.state_bucket,
        acting={"pull-requests": federation.jobs_in(PULL_REQUEST), "main": federation.jobs_in(MAIN)},
    ),
    after_services,
)
prod_preview = Account(
    # Apart, since who previews a stack opens what is sealed in it.
    PROD_PREVIEW,
    AccountArgs(
        project=settings.project,
        account_id=f"gpujob-{PROD_PREVIEW}",
        display_name="gpujob: looks at prod, changes nothing",
        roles=LOOKS,
        projects=(settings.prod_project,),
        state_bucket=settings.state_bucket,
        acting={"its-environment": federation.jobs_in(PROD_PREVIEW), "main": federation.jobs_in(MAIN)},
    ),
    after_services,
)
deploy = {
    environment: Account(
        f"deploy-{environment}",
        AccountArgs(
            # In the project that it changes: who may make accounts there could else take over production's.
            project=project,
            account_id=f"gpujob-deploy-{environment}",
            display_name=f"gpujob: deploys from the environment {environment}",
            roles=DEPLOYS,
            projects=(project,),
            state_bucket=settings.state_bucket,
            acting={"its-environment": federation.jobs_in(environment)},
            pulls_from=settings.pulls_from(environment),
        ),
        after_services,
    )
    for environment, project in settings.environments.items()
}
state = State(
    "state",
    StateArgs(
        project=settings.project,
        region=settings.region,
        bucket=settings.state_bucket,
        labels=LABELS,
        readers={"preview": preview.member, PROD_PREVIEW: prod_preview.member},
        writers={environment: Writer(account.member, STACKS[environment]) for environment, account in deploy.items()},
        openers=OPENERS,
    ),
    after_services,
)

for name, value in exports(
    settings,
    variables={
        "GCP_WORKLOAD_IDENTITY_PROVIDER": federation.provider,
        "GCP_PREVIEW_ACCOUNT": preview.email,
        "GCP_PROD_PREVIEW_ACCOUNT": prod_preview.email,
        "PULUMI_STATE_URL": state.backend_url,
        "PULL_REQUEST_PROJECT": settings.pull_request_project,
        "PULL_REQUEST_SECRETS_PROVIDER": state.secrets_providers["pull-request"],
    },
    secrets_providers=state.secrets_providers,
    environment_variables={name: {"GCP_DEPLOY_ACCOUNT": account.email} for name, account in deploy.items()},
).items():
    pulumi.export(name, value)
