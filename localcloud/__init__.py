"""Google Cloud on one machine: the REST surface a deployment of a Cloud Run job needs, and an executor that runs the
job."""

VERSION = "0.1.0"
