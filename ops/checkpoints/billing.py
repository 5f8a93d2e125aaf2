"""What a bucket bills beyond what it lists: objects that were deleted and are kept by soft delete."""

from __future__ import annotations

from dataclasses import dataclass

from ops.text import size_text


@dataclass(frozen=True)
class Billed:
    """None is "not known", with the reason."""

    soft_delete_s: int | None = None
    """How long the bucket keeps deleted objects; 0: it does not."""
    soft_deleted_bytes: int | None = None
    reason: str = ""

    def sentence(self, live_bytes: int) -> str:
        if self.soft_delete_s is None:
            return f"Whether the bucket bills deleted objects is not known: {self.reason}"
        if self.soft_delete_s == 0:
            return f"Billed: {size_text(live_bytes)}. Soft delete is off, so what is pruned costs nothing more."
        number = self.soft_delete_s / 86400
        days = f"Soft delete keeps what is pruned for {number:g} day{'' if number == 1 else 's'}"
        if self.soft_deleted_bytes is None:
            return f"{days}, and bills it. How much that is now is not known: {self.reason}"
        total = size_text(live_bytes + self.soft_deleted_bytes)
        return f"{days}: {size_text(self.soft_deleted_bytes)} deleted but kept. Billed: {total}."


def billed(url: str) -> Billed:
    """For the line at a gs:// URL. Asking needs more rights than listing does, so trouble is told, not raised."""
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError
    from google.cloud.storage import Client

    bucket_name, _, prefix = url.removeprefix("gs://").partition("/")
    kept_s: int | None = None
    try:
        client = Client()
        bucket = client.get_bucket(bucket_name, timeout=30)
        policy = bucket.soft_delete_policy
        kept_s = int(policy.retention_duration_seconds or 0)
        if kept_s == 0:
            return Billed(0, 0)
        deleted = client.list_blobs(bucket, prefix=f"{prefix}/", soft_deleted=True, timeout=30)
        # A service that does not know the parameter lists what lives.
        return Billed(kept_s, sum(int(blob.size or 0) for blob in deleted if blob.soft_delete_time))
    except (GoogleAPIError, GoogleAuthError, OSError, ValueError) as error:
        return Billed(kept_s, None, f"{type(error).__name__}: {error}".splitlines()[0])
