"""The worker: training that survives being killed at any instruction.

`session` is the whole public API. This module and `app.session` import nothing heavy: `python -m app` must hear SIGTERM
before it imports torch.
"""

from app.session import session

__all__ = ["session"]
