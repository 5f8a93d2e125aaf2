"""What `pulumi up` declares, read from top to bottom: settings, components, exports. The rest is in infra/."""

import pulumi

from infra import outputs, settings
from infra.access import grant_access
from infra.checkpoints import Checkpoints, CheckpointsArgs
from infra.delivery import deliver
from infra.identity import Account, AccountArgs
from infra.job import GpuJob, GpuJobArgs
from infra.observability import observe
from infra.services import Services, ServicesArgs

stack = settings.load()

services = Services("services", ServicesArgs.of(stack))
after_services = pulumi.ResourceOptions(depends_on=services.enabled)

account = Account("job", AccountArgs.of_job(stack), after_services)
checkpoints = Checkpoints("checkpoints", CheckpointsArgs.of(stack, member=account.member), after_services)
readable = grant_access(stack, member=account.member, after=after_services)
delivery = deliver(stack, after=services.enabled)

job = GpuJob(
    "gpu",
    GpuJobArgs.of(stack, image=delivery.image, service_account=account.email, bucket=checkpoints.bucket),
    # Without its grants the first task could neither start nor read its own checkpoints.
    pulumi.ResourceOptions(depends_on=[*services.enabled, *checkpoints.grants, *readable]),
)

dashboard_url = observe(stack, after_services)

for name, value in outputs.exports(
    stack,
    image=delivery.image,
    image_digest=delivery.digest,
    service_account=account.email,
    job_id=job.id,
    dashboard_url=dashboard_url,
).items():
    pulumi.export(name, value)
