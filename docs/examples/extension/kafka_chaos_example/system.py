"""Patient: the reference brokers with sessions as long as the version says, `--system patient:9` for 9 seconds."""

from dataclasses import dataclass, replace

from harness.extending.systems import ClusterSpec, ReferenceSystem, SystemKind, Traits, UsageError

SESSION_S = 5


@dataclass(frozen=True, kw_only=True)
class PatientSystem(ReferenceSystem):
    """What it does not say here it does as its base."""

    @property
    def title(self) -> str:
        return f"patient cluster (sessions of {self.setting('zookeeper.session.timeout.ms')} ms)"


def make(spec: ClusterSpec) -> PatientSystem:
    version = spec.system.partition(":")[2] or str(SESSION_S)
    if not version.isdigit():
        raise UsageError(f"system {spec.system!r}: its version is how many seconds a session lasts, such as patient:9")
    settings = {"zookeeper.session.timeout.ms": str(int(version) * 1000), **spec.settings}
    return PatientSystem(spec=replace(spec, settings=settings))


def traits(spec: ClusterSpec) -> Traits:
    return Traits(kind="patient", coordination="zookeeper", world=spec.world, groups=False)


PATIENT = SystemKind(name="patient", make=make, traits=traits, worlds=("local", "docker"))
