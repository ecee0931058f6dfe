"""Where faults come about that nobody recorded: a cluster, one engine, and the topics that were named so far.

A recording (recording.py) is a run of its own and has another context; the session (session.py) acts on whichever is
the present one.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from harness.controller.context import RunContext
from harness.controller.observer import Observer
from harness.controller.probes import Probes
from harness.controller.recorder import Recorder
from harness.controller.step_acts import Acts
from harness.history.journals.journal import ProcessNumbers
from harness.host.clock import Clock
from harness.ports.cluster import ClientMaker, Cluster
from harness.scenario.model import Scenario, TopicSpec


@dataclass(frozen=True, kw_only=True)
class Stage:
    """context: what acts and waits act on. folder: where what is recorded goes."""

    context: RunContext
    acts: Acts
    folder: Path

    def knows(self, topics: tuple[TopicSpec, ...]) -> None:
        """These topics too, from now on."""
        context = self.context
        context.scenario = replace(context.scenario, topics=(*context.scenario.topics, *topics))
        context.observer.watch([topic.name for topic in topics])

    async def close(self) -> list[str]:
        """Heals what is in force and stops looking; one sentence for each fault that could not be healed."""
        await self.acts.cancel()
        unhealed = await self.context.heal_everything()
        await self.context.observer.stop()
        self.context.recorder.close()
        return unhealed


def unrecorded_stage(
    *,
    scenario: Scenario,
    cluster: Cluster,
    folder: Path,
    make_client: ClientMaker,
    clock: Clock,
) -> Stage:
    """Of a running cluster. What its faults leave in `folder` is judged by nobody."""
    recorder = Recorder(folder=folder, clock=clock)
    topics = [topic.name for topic in scenario.topics]
    context = RunContext(
        scenario=scenario,
        cluster=cluster,
        observer=Observer(cluster=cluster, topics=topics, clock=clock, recorder=recorder),
        recorder=recorder,
        clock=clock,
        seed=scenario.seed or 1,
        probes=Probes(
            make_client=make_client,
            bootstrap=cluster.bootstrap,
            settings=scenario.workload,
            folder=folder,
            clock=clock,
            numbers=ProcessNumbers(first=0, step=1),
        ),
    )
    context.observer.start()
    return Stage(context=context, acts=Acts(context), folder=folder)
