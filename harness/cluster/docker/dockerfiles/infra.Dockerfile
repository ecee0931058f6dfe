# What owns a node's network namespace: an idle process beside the tools that set packet rules and delays. It outlives
# the broker, and so do the address and the rules.
ARG PYTHON_VERSION=3.11
ARG BASE_IMAGE=python:${PYTHON_VERSION}-slim-bookworm
FROM ${BASE_IMAGE}
RUN (command -v iptables-restore && command -v tc && command -v ip) > /dev/null \
    || (apt-get update && apt-get install -y --no-install-recommends iproute2 iptables && rm -rf /var/lib/apt/lists/*)
# A shell would not answer SIGTERM as process 1; this ends at once.
CMD ["python3", "-c", "import signal; signal.signal(signal.SIGTERM, lambda *_: exit(0)); signal.pause()"]
