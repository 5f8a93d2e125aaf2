"""The prose of docs/configuration.md, around the tables that infra/reference.py writes."""

HEAD = """\
# Configuration

Every key of a stack file. Written by `python -m infra.reference` from `infra/settings.py`; a test holds it to the code.

    pulumi config set gpujob:KEY VALUE                     # a text, number or boolean
    pulumi config set --type string --path 'gpujob:workloadArgs[0]' -- --steps  # an item of a list
    pulumi config set --path 'gpujob:labels.team' VALUE      # an entry of a map

Two keys of the Google provider must be set: `gcp:project` and `gcp:region`. A key that does not exist, a value that
cannot work and values that do not go together are refused before anything is created, all of them at once, each with
the line to paste. `image` pinned means that nothing is built: no build account, no source bucket, and no repository
unless the image comes out of it.
"""

RULES = """
## Rules between keys

- The GPU must be offered in `gcp:region`; regions that Google opens by invitation give a warning.
- `cpu` and `memory` have floors and ceilings by GPU, and no vCPU may have more than 4Gi.
- `timeout` above 3600s gives a warning (a GPU task that long may need preview access) and declares the job with
  launch stage BETA; above 43200s a loud one; above 604800s it is refused. It is billed in full for each attempt:
  `timeout` x (`maxRetries` + 1) x `taskCount` is what one execution can cost at worst, exported as `exposureGpuHours`
  and `exposureUsd`.
- `parallelism` is at most `taskCount`.
- Mounted paths (`mountPath`, those of `readOnlyBuckets`, `ephemeralDiskPath`) do not lie within one another.
- `networkTags` and `egress` need `network` or `subnetwork`; a full subnetwork name and `kmsKey` lie in `gcp:region`.
- A variable is set by `env` or by `secrets`, not by both.
- Names are checked as they will be sent, with `nameSuffix`.
- A label `gpujob-stack` says on each object which stack made it (accounts and metrics: in their description), for
  `gpujob recover`; it cannot be among `labels`.
- Environment variables that Cloud Run sets (`CLOUD_RUN_*`) or the job sets itself (`CHECKPOINT_DIR`, `MAX_RETRIES`,
  `REQUIRED_GPU`, `TASK_TIMEOUT_S`) cannot be set by `env`.

## What a bucket is not given

- **A retention policy or object lock**: both forbid to overwrite and to delete. The worker rewrites its ledger and
  hints, and prunes checkpoints.
- **Lifecycle rules that delete by age**: a long run may still refer to tensors that it wrote once, at its
  beginning. The worker alone knows what is spent.
- **Versioning**: objects are written once, under new names; every pruned checkpoint would be kept and billed. A
  grace for deletions by mistake is `softDeleteSeconds`.

## From dev to prod

    gpujob promote dev prod          # pins dev's image, by digest, in Pulumi.prod.yaml; shows before and after
    pulumi preview -s prod

It changes that one line and deploys nothing. The repository removes images that are older than 30 days and not among
the 10 newest, unless a tag that begins with `promoted-` keeps them: the command prints the one that sets it. Where prod
is another project, its Cloud Run agent must be among `imageReaders` of the stack that owns the repository.

Teams that build outside of Pulumi use `cloudbuild.yaml`, which a test holds to what `pulumi up` asks for, and set
`image` to the digest that came out. A built image that is no longer in the registry is noticed by
`pulumi up --refresh`, and built again.

## After `pulumi destroy`

    gpujob leftovers -s dev          # exit 0: nothing is left; exit 1: what is, with the command that deletes each

It takes the names from the stack's file and lists jobs, buckets, repositories, accounts, metrics and alerts.
What only bears the label `app=gpujob` may be another stack's, and is mentioned.

## The three stack files

- `Pulumi.dev.yaml`: disposable; builds its image. Set your project:
  `pulumi config set gcp:project YOUR-PROJECT-ID -s dev`.
- `Pulumi.prod.yaml`: protected. To tear it down: `pulumi config set gpujob:disposable true -s prod`,
  `pulumi up -s prod`, `pulumi destroy -s prod`.
- `Pulumi.local.yaml`: the local cloud on its default port. Its passphrase is `local`: there is nothing secret in it,
  and the committed salt keeps the file as it is. Another port: a copy of it, given to the engine by `--config-file`.

`pulumi stack init` adds a salt, or the name of your key, to `Pulumi.dev.yaml` and `Pulumi.prod.yaml`: commit that with
your project.

## What whoever runs `pulumi up` must be allowed

Roles on the project, the same that `bootstrap/` gives to a deploy account (a test holds both to what the program
makes):

- `roles/run.developer` for the job. `roles/run.admin` would add only who may call and run it
  (`run.jobs.setIamPolicy`); the program grants nothing on the job.
- `roles/iam.serviceAccountAdmin` makes the accounts, `roles/iam.serviceAccountUser` lets job and build run as them.
- `roles/storage.admin` and `roles/artifactregistry.admin` for buckets and repository: here the program does grant, to
  the accounts of job and build, and no smaller predefined role may.
- `roles/cloudbuild.builds.editor`, `roles/logging.viewer` (the end of a failed build's log) and
  `roles/resourcemanager.projectIamAdmin` (one grant: the build's account may write logs; the bootstrap holds it to
  that by a condition): only where the stack builds its image, not where `image` is pinned.
- `roles/logging.configWriter`, `roles/monitoring.alertPolicyEditor`, `roles/monitoring.dashboardEditor` and
  `roles/monitoring.notificationChannelEditor`, unless `observability` is false.
- `roles/serviceusage.serviceUsageAdmin` to turn APIs on.

With `secrets`: `roles/secretmanager.admin` on those secrets. With `readOnlyBuckets`: `roles/storage.admin` on those
buckets.

## Secrets

    gpujob:secrets:
      API_TOKEN: projects/some-project/secrets/api-token/versions/3

The job's account gets `roles/secretmanager.secretAccessor` on the secret, and Cloud Run puts the version's content into
the variable as a task starts. Neither this program nor Pulumi's state ever sees it. To rotate: add a version, change
the number, `pulumi up`; an execution that runs keeps the version it began with, in its later attempts too.

## Read-only buckets and the ephemeral disk

    gpujob:readOnlyBuckets:
      base-models:
        bucket: our-base-models
        mountPath: /models
        folder: llama        # may be left out
    gpujob:ephemeralDisk: 100Gi
    gpujob:ephemeralDiskPath: /scratch

The buckets exist already and stay when the stack goes. Each is granted to the job's account
(`roles/storage.objectViewer`) and mounted read-only. The disk is empty at the start of each attempt: no place for
checkpoints.

## A key of your own

`kmsKey` is one key for the buckets, the repository and the job. The services that use it need
`roles/cloudkms.cryptoKeyEncrypterDecrypter` on it, which whoever keeps the key grants once, before the first
`pulumi up` (this program does not: keys belong to others than those who deploy, and so does the right to grant them):

    for agent in service-NUMBER@gs-project-accounts.iam.gserviceaccount.com \\
                 service-NUMBER@gcp-sa-artifactregistry.iam.gserviceaccount.com \\
                 service-NUMBER@serverless-robot-prod.iam.gserviceaccount.com; do
      gcloud kms keys add-iam-policy-binding KEY --keyring RING --location REGION --project KEY-PROJECT \\
        --member serviceAccount:$agent --role roles/cloudkms.cryptoKeyEncrypterDecrypter
    done

NUMBER is that of the job's project. What was stored before stays under its old key until it is rewritten.

## What the rehearsal cannot show

The local cloud has no VPC, no Cloud KMS and no Binary Authorization: leave `network`, `subnetwork`, `kmsKey` and
`binaryAuthorization` out of the local stack. It has a Secret Manager (docs/local-cloud.md says how to fill it), so
`secrets` may be rehearsed. What all of these declare is held, input for input, by tests against mocks
(`tests/infra/test_guarded_inputs.py`), and has not been tried against the live API from here.
"""
