# The harness as an image, for CI jobs: `make image`. It runs as any user id, in group 0 as OpenShift has it:
# `docker run --user 54321:0`; not as root unless told. Its clusters are processes inside the container (`--world local`); no engine is needed.
#
# The context is a folder of wheels that `make image` fills from the locks, so that nothing is fetched while the image is
# built and every file in it was held against its SHA-256.
ARG BASE_IMAGE=python:3.11-slim-bookworm
FROM ${BASE_IMAGE} AS installed
COPY . /wheels
# pip runs out of its own wheel: a base image need not have it.
RUN PYTHONPATH="$(echo /wheels/pip-*.whl)" python3 -m pip install --no-cache-dir --no-index --no-deps \
        --root-user-action ignore --target /opt/kafka-chaos $(ls /wheels/*.whl | grep -v '/pip-')
RUN PYTHONPATH=/opt/kafka-chaos python3 -m harness --version

FROM ${BASE_IMAGE}
COPY --from=installed /opt/kafka-chaos /opt/kafka-chaos
# Runs, state and cache lie in /results: a volume or folder that whoever runs it may write to. It is open to every user of
# the container, for its user is not known beforehand. Hadoop's login, which Spark asks, fails for a user without a name:
# the command gives it one, so /etc/passwd is open to group 0 as Spark's own images have it.
RUN mkdir /results && chmod 1777 /results && chmod 664 /etc/passwd \
    && printf '%s\n' '#!/bin/sh' \
        'whoami > /dev/null 2>&1 || echo "chaos:x:$(id -u):0::/results:/bin/sh" >> /etc/passwd' \
        'exec python3 -m harness "$@"' > /usr/local/bin/kafka-chaos \
    && chmod 755 /usr/local/bin/kafka-chaos
ENV PYTHONPATH=/opt/kafka-chaos PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/results \
    XDG_STATE_HOME=/results/.state XDG_CACHE_HOME=/results/.cache
WORKDIR /results
USER 10001:0
ENTRYPOINT ["kafka-chaos"]
CMD ["--help"]
