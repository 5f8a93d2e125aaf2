"""Every resource type that the plugin makes, by its Pulumi token."""

from __future__ import annotations

from collections.abc import Mapping

from localcloud.provider.products import (
    artifactregistry,
    cloudrunv2,
    cloudscheduler,
    logging,
    monitoring,
    projects,
    secretmanager,
    serviceaccount,
    storage,
)
from localcloud.provider.resource import ResourceType

TYPES: Mapping[str, ResourceType] = {
    each.token: each
    for each in (
        *projects.TYPES,
        *serviceaccount.TYPES,
        *storage.TYPES,
        *artifactregistry.TYPES,
        *cloudrunv2.TYPES,
        *logging.TYPES,
        *monitoring.TYPES,
        *cloudscheduler.TYPES,
        *secretmanager.TYPES,
    )
}
