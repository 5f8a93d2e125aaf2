"""Type tokens that the rules look for. A test holds them against the Google SDK: a misspelt one would never fire."""

JOB = "gcp:cloudrunv2/job:Job"
BUCKET = "gcp:storage/bucket:Bucket"
REPOSITORY = "gcp:artifactregistry/repository:Repository"

ACCOUNT_KEY = "gcp:serviceaccount/key:Key"
HMAC_KEY = "gcp:storage/hmacKey:HmacKey"

PROJECT_BINDING = "gcp:projects/iAMBinding:IAMBinding"
PROJECT_POLICY = "gcp:projects/iAMPolicy:IAMPolicy"
FOLDER_BINDING = "gcp:folder/iAMBinding:IAMBinding"
FOLDER_POLICY = "gcp:folder/iAMPolicy:IAMPolicy"
ORGANIZATION_BINDING = "gcp:organizations/iAMBinding:IAMBinding"
ORGANIZATION_POLICY = "gcp:organizations/iAMPolicy:IAMPolicy"

BUCKET_ACL = "gcp:storage/bucketACL:BucketACL"
BUCKET_ACCESS = "gcp:storage/bucketAccessControl:BucketAccessControl"
OBJECT_ACL = "gcp:storage/objectACL:ObjectACL"
OBJECT_ACCESS = "gcp:storage/objectAccessControl:ObjectAccessControl"
DEFAULT_OBJECT_ACL = "gcp:storage/defaultObjectACL:DefaultObjectACL"
DEFAULT_OBJECT_ACCESS = "gcp:storage/defaultObjectAccessControl:DefaultObjectAccessControl"

ANY_GRANT = r"gcp:\w+/\w+:\w*(IAM|Iam)(Member|Binding|Policy)"
"""Whatever grants by IAM, on any resource of any product."""


def one_of(*tokens: str) -> str:
    """Expression for `Rule.types` that matches exactly these tokens."""
    return "|".join(tokens)
