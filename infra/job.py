"""The GPU job: one task or several, each with a GPU, the checkpoint bucket mounted, and retries that resume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
from pulumi_gcp import cloudrunv2

from infra.ownership import LABEL_STAYS
from infra.secret_versions import SecretVersion
from infra.settings import Settings
from infra.volumes import Volumes
from infra.vpc import Vpc

COMMAND = ("python", "-m", "app")


@dataclass(frozen=True)
class GpuJobArgs:
    """Everything about the job. Quantities are spelled as the API answers them, or every refresh would see a change."""

    project: str
    region: str
    job: str
    image: pulumi.Input[str]
    """By digest."""
    arguments: tuple[str, ...]
    env: Mapping[str, str]
    """The user's own variables; the worker's contract is added to them."""
    service_account: pulumi.Input[str]
    secrets: Mapping[str, SecretVersion]
    """Variable -> version of a secret."""
    volumes: Volumes
    vpc: Vpc | None
    kms_key: str
    """Empty: Google's own keys."""
    binary_authorization: bool
    gpu_type: str
    require_gpu: bool
    cpu: str
    memory: str
    timeout_s: int
    max_retries: int
    task_count: int
    parallelism: int
    labels: Mapping[str, str]
    """Of its executions."""
    own_labels: Mapping[str, str]
    """Of the job itself."""
    launch_stage: str | None
    disposable: bool

    @classmethod
    def of(
        cls,
        settings: Settings,
        *,
        image: pulumi.Input[str],
        service_account: pulumi.Input[str],
        bucket: pulumi.Input[str],
    ) -> GpuJobArgs:
        """As this stack wants it, with what only deployment knows."""
        return cls(
            project=settings.project,
            region=settings.region,
            job=settings.job,
            image=image,
            arguments=(settings.workload, *settings.workload_args),
            env=settings.env,
            service_account=service_account,
            secrets=settings.secret_versions,
            volumes=Volumes.of(settings, bucket=bucket),
            vpc=Vpc.of(settings),
            kms_key=settings.kms_key,
            binary_authorization=settings.binary_authorization,
            gpu_type=settings.gpu_type,
            require_gpu=settings.require_gpu,
            cpu=settings.cpu,
            memory=settings.memory,
            timeout_s=settings.timeout_s,
            max_retries=settings.max_retries,
            task_count=settings.task_count,
            parallelism=settings.parallelism,
            labels=settings.all_labels,
            own_labels=settings.own_labels,
            launch_stage=settings.launch_stage,
            disposable=settings.disposable,
        )


class GpuJob(pulumi.ComponentResource):
    """A Cloud Run job. Creating or updating it never runs it: an execution costs money and is started on purpose."""

    name: pulumi.Output[str]
    id: pulumi.Output[str]
    """projects/P/locations/L/jobs/J"""

    def __init__(self, name: str, args: GpuJobArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpujob:infra:GpuJob", name, None, opts)
        job = cloudrunv2.Job(
            f"{name}-job",
            project=args.project,
            location=args.region,
            name=args.job,
            labels=dict(args.own_labels),
            launch_stage=args.launch_stage,
            deletion_protection=not args.disposable,
            binary_authorization=_binary_authorization(args),
            template=cloudrunv2.JobTemplateArgs(
                task_count=args.task_count,
                # Unset it means "as many as possible", and the GPU quota is checked against that.
                parallelism=args.parallelism,
                # The job's own labels do not reach its executions.
                labels=dict(args.labels),
                template=_task(args),
            ),
            opts=pulumi.ResourceOptions(
                parent=self,
                delete_before_replace=True,
                protect=not args.disposable,
                ignore_changes=[LABEL_STAYS],
            ),
        )
        self.name = job.name
        self.id = job.id
        self.register_outputs({"name": self.name, "id": self.id})


def worker_env(args: GpuJobArgs) -> dict[str, str]:
    """What the worker reads (app/contract.py), sorted by name as the API keeps it."""
    contract = {
        "CHECKPOINT_DIR": args.volumes.mount_path,
        "MAX_RETRIES": str(args.max_retries),
        "TASK_TIMEOUT_S": str(args.timeout_s),
    }
    if args.require_gpu:
        contract["REQUIRED_GPU"] = args.gpu_type
    return dict(sorted({**args.env, **contract}.items()))


def _task(args: GpuJobArgs) -> cloudrunv2.JobTemplateTemplateArgs:
    return cloudrunv2.JobTemplateTemplateArgs(
        service_account=args.service_account,
        timeout=f"{args.timeout_s}s",
        max_retries=args.max_retries,
        execution_environment="EXECUTION_ENVIRONMENT_GEN2",
        gpu_zonal_redundancy_disabled=True,
        encryption_key=args.kms_key or None,
        vpc_access=args.vpc.access() if args.vpc else None,
        node_selector=cloudrunv2.JobTemplateTemplateNodeSelectorArgs(accelerator=args.gpu_type),
        containers=[
            cloudrunv2.JobTemplateTemplateContainerArgs(
                image=args.image,
                commands=list(COMMAND),
                args=list(args.arguments),
                envs=_envs(args),
                resources=cloudrunv2.JobTemplateTemplateContainerResourcesArgs(
                    limits={"cpu": args.cpu, "memory": args.memory, "nvidia.com/gpu": "1"}
                ),
                volume_mounts=args.volumes.mounted(),
            )
        ],
        volumes=args.volumes.declared(),
    )


def _envs(args: GpuJobArgs) -> list[cloudrunv2.JobTemplateTemplateContainerEnvArgs]:
    """Plain and secret variables together, sorted by name as the API keeps them."""
    plain = [
        cloudrunv2.JobTemplateTemplateContainerEnvArgs(name=name, value=value)
        for name, value in worker_env(args).items()
    ]
    secret = [
        cloudrunv2.JobTemplateTemplateContainerEnvArgs(name=name, value_source=_from(version, args.project))
        for name, version in args.secrets.items()
    ]
    return sorted([*plain, *secret], key=lambda env: str(env.name))


def _from(version: SecretVersion, project: str) -> cloudrunv2.JobTemplateTemplateContainerEnvValueSourceArgs:
    return cloudrunv2.JobTemplateTemplateContainerEnvValueSourceArgs(
        secret_key_ref=cloudrunv2.JobTemplateTemplateContainerEnvValueSourceSecretKeyRefArgs(
            secret=version.seen_from(project), version=version.version
        )
    )


def _binary_authorization(args: GpuJobArgs) -> cloudrunv2.JobBinaryAuthorizationArgs | None:
    return cloudrunv2.JobBinaryAuthorizationArgs(use_default=True) if args.binary_authorization else None
