"""What a run would do to somebody else's cluster, and to whom, in lines; nothing is done for it but reading.

It stands beside what is known against the run, so that whoever answers for the cluster can say yes or no to it.
"""

from collections.abc import Iterator

from harness.scenario.model import FaultSpec, Scenario, TopicSpec

# Of steps: they are done to see what comes of them.
_WRITING_EXPECTATIONS = ("configure", "create_topic", "elect", "produce")


def would_be_done(scenario: Scenario) -> Iterator[str]:
    if not scenario.cluster.is_foreign:
        return
    on = scenario.cluster
    yield f"it would connect to {_connected(scenario)}"
    afterwards = "deleted after the run" if on.attached.delete_topics else "kept after the run"
    for topic in scenario.topics:
        yield f"it would make topic {_there(scenario, topic.name)}: {_layout(topic)}; {afterwards}"
    facts = scenario.workload.facts
    if facts.group:
        yield f"it would use group {_there(scenario, facts.group)}; {afterwards}"
    for identity in facts.transactional_ids:
        yield f"it would use transactional id {_there(scenario, identity)}, which expires by itself"
    if scenario.workload.workers:
        clients = ", ".join(f"{count} {role}{'s' * (count != 1)}" for role, count in facts.clients.items() if count)
        yield f"it would send and read for about {scenario.workload.duration_s:g} s with {clients}"
    for fault in scenario.faults:
        yield f"it would {_fault(fault)}"
    for number, step in enumerate(scenario.steps, 1):
        if step.kind == "act" or any(word in step.body for word in _WRITING_EXPECTATIONS):
            yield f"it would, at step {number}, {step.wording}"
    for name, command in on.attached.commands.items():
        yield f"by the {name} command: {command}"
    yield "no other topic, group or transactional id would be touched"


def _connected(scenario: Scenario) -> str:
    on, brokers = scenario.cluster, scenario.traits.brokers
    if on.attached.front_ends and brokers:
        addresses = dict.fromkeys(each.strip() for each in on.bootstrap.split(",") if each.strip())
        return ", ".join(f"front end {number} at {at}" for number, at in zip(brokers, addresses, strict=True))
    return f"brokers {', '.join(map(str, brokers)) or 'who do not answer'}, by {on.bootstrap or on.system}"


def _there(scenario: Scenario, name: str) -> str:
    """The mark is drawn when the run begins."""
    prefix = scenario.cluster.attached.prefix
    return f"{prefix}-<mark>-{name}" if prefix else name


def _layout(topic: TopicSpec) -> str:
    settings = "".join(f", {key}={value}" for key, value in topic.settings.items())
    where = f" on {[list(replicas) for replicas in topic.assignment]}" if topic.assignment else ""
    partitions = f"{topic.partition_count} partition{'s' * (topic.partition_count != 1)}"
    return f"{partitions} of {topic.replicas} replica{'s' * (topic.replicas != 1)}{where}{settings}"


def _fault(fault: FaultSpec) -> str:
    when = fault.when or (f"at {fault.at_s:g} s" if fault.at_s is not None else f"every {fault.every_s or 0:g} s")
    lasting = "" if fault.for_s is None else f" for {fault.for_s:g} s"
    return f"{fault.kind} {fault.target or 'all'} {when}{lasting}"
