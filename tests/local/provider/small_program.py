"""One resource of each kind that the tests look at; settings come from the environment."""

import os

import pulumi
import pulumi_gcp as gcp

E = os.environ.get
run = gcp.cloudrunv2
bucket = gcp.storage.Bucket(
    "data",
    name="data-bucket",
    location=E("LOCATION", "europe-west4"),
    force_destroy=True,
    uniform_bucket_level_access=True,
    labels={"app": E("LABEL", "small")},
)
account = gcp.serviceaccount.Account("worker", account_id="gpu-job-sa", display_name=E("DISPLAY", "worker"))
gcp.storage.BucketIAMMember(
    "grant", bucket=bucket.name, role=E("ROLE", "roles/storage.objectUser"), member=account.member
)
variables = [("LOG_LEVEL", E("LOG_LEVEL", "info")), ("EMPTY", "")]
if E("SWAPPED"):
    variables.reverse()
job = run.Job(
    "job",
    name="job-one",
    location="europe-west4",
    deletion_protection=bool(E("PROTECTED")),
    template=run.JobTemplateArgs(
        template=run.JobTemplateTemplateArgs(
            service_account=account.email,
            timeout=E("TIMEOUT") or None,
            max_retries=0,
            containers=[
                run.JobTemplateTemplateContainerArgs(
                    image="europe-west4-docker.pkg.dev/demo/r/app@sha256:" + "0" * 64,
                    envs=[run.JobTemplateTemplateContainerEnvArgs(name=n, value=v) for n, v in variables],
                    startup_probe=run.JobTemplateTemplateContainerStartupProbeArgs(period_seconds=3)
                    if E("PROBE")
                    else None,
                )
            ],
        )
    ),
)
if E("TOPIC"):
    gcp.pubsub.Topic("topic")
pulumi.export("email", account.email)
pulumi.export("url", bucket.url)
