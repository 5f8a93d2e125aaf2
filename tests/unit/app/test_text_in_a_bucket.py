"""Text in a bucket that cannot be read: the reason, the place and the way out are said, and no retry is asked for."""

from __future__ import annotations

import pytest
from google.api_core.exceptions import Forbidden, NotFound, ServiceUnavailable
from google.auth.exceptions import DefaultCredentialsError
from google.cloud import storage

from app.contract import Refusal
from app.workloads.language_model import text


def reading(monkeypatch, error: Exception) -> None:
    def client(**_: object) -> None:
        raise error

    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    monkeypatch.setattr(storage, "Client", client)
    text.load("gs://some-bucket/text", 100)


@pytest.mark.parametrize(
    ("error", "way_out"),
    [
        (DefaultCredentialsError("none found"), "gcloud auth application-default login"),
        (NotFound("no such bucket"), "Check the bucket's name"),
        (Forbidden("not you"), "roles/storage.objectViewer"),
        (ValueError("Bucket names must start with a letter"), "Check the bucket's name"),
    ],
)
def test_what_no_retry_mends_is_refused(monkeypatch, error, way_out):
    with pytest.raises(Refusal, match=r"gs://some-bucket/text") as refusal:
        reading(monkeypatch, error)
    assert way_out in str(refusal.value)


def test_what_a_retry_may_mend_is_no_refusal(monkeypatch):
    with pytest.raises(ServiceUnavailable):
        reading(monkeypatch, ServiceUnavailable("later"))
