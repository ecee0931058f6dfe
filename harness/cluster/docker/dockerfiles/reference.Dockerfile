# The reference broker and its coordination service: the package, and the few packages it needs, as they are installed
# beside the harness. So nothing is fetched while the image is built, and both speak with the same codecs.
ARG PYTHON_VERSION=3.11
ARG BASE_IMAGE=python:${PYTHON_VERSION}-slim-bookworm
FROM ${BASE_IMAGE}
COPY packages /opt/kafka-chaos
ENV PYTHONPATH=/opt/kafka-chaos PYTHONUNBUFFERED=1
# Shows that it starts here, and leaves its bytecode in the image.
RUN ["python3", "-m", "reference_impl", "--help"]
CMD ["python3", "-m", "reference_impl"]
