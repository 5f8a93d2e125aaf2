"""The rules as pure functions over plain data: no engine and no pulumi_policy needed to read, run or test them."""

from .bucket import BUCKET_RULES
from .gpu import GPU_RULES
from .grants import GRANT_RULES
from .identity import IDENTITY_RULES
from .image import IMAGE_RULES
from .labels import LABEL_RULES
from .limits import LIMIT_RULES
from .protection import PROTECTION_RULES
from .registry import REGISTRY_RULES
from .rule import Rule

RULES: tuple[Rule, ...] = (
    *IDENTITY_RULES,
    *IMAGE_RULES,
    *LIMIT_RULES,
    *GPU_RULES,
    *BUCKET_RULES,
    *GRANT_RULES,
    *REGISTRY_RULES,
    *PROTECTION_RULES,
    *LABEL_RULES,
)
"""Every policy of the pack, in the order in which docs/policies.md lists them."""
