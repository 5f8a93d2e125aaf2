"""What the engine may delete, and in which order it replaces: options are no inputs and need their own look."""

import pytest

GUARDED = [
    ("gcp:storage/bucket:Bucket", "checkpoints-bucket"),
    ("gcp:artifactregistry/repository:Repository", "registry-repository"),
    ("gcp:cloudrunv2/job:Job", "gpu-job"),
]


@pytest.mark.parametrize("which", GUARDED, ids=lambda which: which[1])
def test_a_stack_that_is_not_disposable_protects(deploy, which):
    assert deploy().options[which].protect is True


def test_a_disposable_stack_protects_nothing(deploy):
    assert [which for which, opts in deploy(disposable="true").options.items() if opts.protect] == []


def test_an_uploaded_build_context_is_never_worth_protecting(deploy):
    assert not deploy().options["gcp:storage/bucket:Bucket", "image-source"].protect


def test_what_has_a_fixed_name_is_deleted_before_it_is_replaced(deploy):
    registered = deploy(imageReaders='["group:a@example.com"]', notificationEmails='["a@example.com"]')
    # Those of Monitoring are named by the API: the new one can exist beside the old.
    kinds = ("notificationChannel:NotificationChannel", "alertPolicy:AlertPolicy", "dashboard:Dashboard")
    together = {"gcp:projects/service:Service", "pulumi-python:dynamic/gpujob:BuiltImage"}
    together |= {f"gcp:monitoring/{kind}" for kind in kinds}
    without = [
        which
        for which, opts in registered.options.items()
        if which[0].startswith(("gcp:", "pulumi-python:")) and not opts.delete_before_replace
    ]
    assert {kind for kind, _ in without} == together


def test_every_resource_is_the_child_of_a_component_and_bears_its_name(deploy):
    for (kind, name), opts in deploy().options.items():
        if kind.startswith(("gcp:", "pulumi-python:")):
            parent = opts.parent
            assert parent._type.startswith("gpujob:infra:"), name
            assert name.startswith(f"{parent._name}-"), name
