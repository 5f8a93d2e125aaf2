# The worker's image. Dependencies come before code, so that a change of code moves kilobytes, not gigabytes.
#
# The base is pinned by version; to pin it by digest as well, append @sha256:... as `docker buildx imagetools inspect` shows it.
FROM python:3.11.14-slim-bookworm

# Which torch sees the GPU is decided by the driver on Cloud Run's hosts (infra/accelerators.py), which passes these three:
# the major CUDA version, and, where the pinned torch is built for another one, a requirement and the index that has it.
ARG CUDA_MAJOR=13
ARG TORCH_INDEX=""
ARG TORCH_REQUIREMENT=""

ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore \
    LD_LIBRARY_PATH=/usr/local/nvidia/lib64

# Made early: this layer never changes.
RUN groupadd --gid 10001 worker && useradd --uid 10001 --gid 10001 --create-home worker

WORKDIR /app

# torch, by far the largest layer. With TORCH_REQUIREMENT it brings its own CUDA libraries.
RUN if [ -n "$TORCH_REQUIREMENT" ]; then pip install --index-url "$TORCH_INDEX" "$TORCH_REQUIREMENT"; fi

# The rest, every file held to its hash. Where torch is there already, its lines and those of its CUDA libraries are left out.
COPY requirements/worker.txt requirements/worker.txt
RUN if [ -n "$TORCH_REQUIREMENT" ]; then \
      awk '/^[a-z0-9]/ { keep = !/^(torch|triton|cuda|nvidia)[a-z0-9_-]*==/ } keep' requirements/worker.txt > /tmp/worker.txt; \
    else cp requirements/worker.txt /tmp/worker.txt; fi \
 && pip install --no-deps --require-hashes -r /tmp/worker.txt \
 && rm /tmp/worker.txt \
 && python -c "import torch; v = torch.version.cuda; assert v.split('.')[0] == '$CUDA_MAJOR', f'torch is built for CUDA {v}, the driver wants $CUDA_MAJOR'"

COPY app/ app/

# What the image says about itself; the build adds org.opencontainers.image.revision, the hash of its whole context.
LABEL org.opencontainers.image.title="gpujob worker" \
      org.opencontainers.image.description="GPU training that resumes exactly after an interruption" \
      org.opencontainers.image.base.name="docker.io/library/python:3.11.14-slim-bookworm"

# An own user, to whom the job mounts the bucket (infra/volumes.py). Caches (of torch's compiler, of the loader) go to its home.
USER 10001:10001

# Exec form: Python itself is process 1 and hears SIGTERM; a shell in between would not pass it on.
CMD ["python", "-m", "app"]
