"""Keys of what things are called, and whether they may go."""

from __future__ import annotations

from dataclasses import dataclass

from infra.keys.declaring import GUARDED, NAMED, key


@dataclass(frozen=True, kw_only=True)
class NameKeys:
    """Names never derive from the stack's: renaming a stack replaces nothing."""

    job_name: str = key("gpu-resilient-job", "Name of the job.", allowed="up to 49 of a-z, 0-9 and -", effect=NAMED)
    account_name: str = key(
        "gpu-job-sa", "Account that the job runs as.", allowed="6 to 30 of a-z, 0-9 and -", effect=NAMED
    )
    build_account_name: str = key(
        "gpu-job-build", "Account that builds the image.", allowed="6 to 30 of a-z, 0-9 and -", effect=NAMED
    )
    bucket_name: str = key(
        "",
        "Bucket of the checkpoints. Empty: gpu-checkpoints-<project>.",
        allowed="3 to 63 of a-z, 0-9, _ and -; unique in all of Cloud Storage",
        effect=GUARDED,
    )
    source_bucket_name: str = key(
        "",
        "Bucket to which the build context is uploaded. Empty: gpu-build-<project>.",
        allowed="as bucketName",
        effect=NAMED,
    )
    repository_name: str = key(
        "gpujob", "Artifact Registry repository of the image.", allowed="up to 63 of a-z, 0-9 and -", effect=NAMED
    )
    name_suffix: str = key(
        "",
        "Appended with a - to each of the names above, so that two stacks fit into one project.",
        allowed="up to 12 of a-z, 0-9 and -",
        effect="replaces everything that has a name",
    )
    disposable: bool = key(
        False,
        "Whether `pulumi destroy` may delete bucket and job with all that is in them. False protects both.",
        allowed="true, false",
        effect="updates protection; to tear a protected stack down, set it, `pulumi up`, then `pulumi destroy`",
    )
