# Apache Kafka from jars that were resolved on this machine (`kafka-chaos fetch-kafka`). Java 17 runs every version in
# the catalogue, from 0.9 to 4.3.
ARG BASE_IMAGE=eclipse-temurin:17-jre
FROM ${BASE_IMAGE}
COPY libs /opt/kafka/libs
RUN ["java", "-version"]
CMD ["java", "-cp", "/opt/kafka/libs/*", "kafka.Kafka"]
