"""The jars of PySpark on a check's class path: without those of features that no check uses.

The compiler of Spark's generated code looks up names that do not exist, and each is looked for in every jar. PySpark
brings some 280, two in five of them for Kubernetes, Hive's metastore, machine learning, YARN, Connect and shells.
Families are left out by name, and whatever no family fits stays: a new jar of a later Spark is there.
"""

from pathlib import Path

# Beginnings of file names.
LEFT_OUT = (
    # cluster managers, and what they ask their servers with: masters other than local and standalone use PySpark's way
    "kubernetes-",
    "volcano-",
    "vertx-",
    "jjwt-",
    "zjsonpatch",
    "spark-kubernetes",
    "spark-yarn",
    "curator-",
    "zookeeper-",
    # Hive's metastore and its databases
    "hive-beeline",
    "hive-cli",
    "hive-common",
    "hive-jdbc",
    "hive-metastore",
    "hive-serde",
    "hive-service-",
    "hive-shims",
    "spark-hive-thriftserver",
    "derby",
    "datanucleus-",
    "javax.jdo",
    "jdo-api",
    "jta-",
    "HikariCP",
    "libthrift",
    "libfb303",
    # machine learning, graphs and streams
    "spark-mllib",
    "spark-graphx",
    "spark-streaming",
    "spark-pipelines",
    "breeze",
    "spire",
    "cats-",
    "algebra",
    "arpack",
    "lapack",
    "blas",
    "JTransforms",
    "JLargeArrays",
    "rocksdbjni",
    "leveldbjni",
    # shells, remote clients, pages (the UI is off), and encryption by native code
    "spark-connect",
    "spark-repl",
    "scala-compiler",
    "jline",
    "jersey-",
    "hk2-",
    "jaxb-",
    "netty-tcnative",
    "tink",
)


def class_path(jars: Path) -> str:
    """Of all jars in the folder `jars` that a check may use; the same order each time, as class archives need it."""
    return ":".join(str(jar) for jar in sorted(jars.glob("*.jar")) if not jar.name.startswith(LEFT_OUT))
