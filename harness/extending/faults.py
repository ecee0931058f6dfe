"""For a fault: entry point `kafka_chaos.faults`, a class that derives from Fault, a frozen dataclass.

Its fields are its options, read by their types as the settings of workloads are. What else it declares stands in
Fault; DownFault, LinkFault, CutFault and NamedOrPeerLinks are what ours have in common. It is asked for by its name in
[[faults]] and [[steps]], counted under [coverage] by `faults_of_` and its kind, and called off by `heal`, `start`,
`resume` or `free`, whichever it names.
"""

from faults.network.link_fault import CutFault, LinkFault, NamedOrPeerLinks
from faults.options import LinkNames, Mode, Percent, one_of
from faults.processes.down import DownFault, killed
from harness.errors import HarnessError, UsageError
from harness.ports.capabilities import CanDamageDisks, CanFillDisks, CanImpairPackets, Impairment
from harness.ports.cluster import (
    CanCrash,
    CanCutLinks,
    CanLosePower,
    CanPause,
    CanSlowLinks,
    CanStop,
    CanWipe,
    Cluster,
    Evidence,
    Link,
    Node,
    NodeId,
    ShowsLogs,
)
from harness.ports.faults import Aliases, Fault, LinksApart, Role, State, Struck, Undo, joined
from harness.values import Count, Seconds, Share

__all__ = [
    "Aliases",
    "CanCrash",
    "CanCutLinks",
    "CanDamageDisks",
    "CanFillDisks",
    "CanImpairPackets",
    "CanLosePower",
    "CanPause",
    "CanSlowLinks",
    "CanStop",
    "CanWipe",
    "Cluster",
    "Count",
    "CutFault",
    "DownFault",
    "Evidence",
    "Fault",
    "HarnessError",
    "Impairment",
    "Link",
    "LinkFault",
    "LinkNames",
    "LinksApart",
    "Mode",
    "NamedOrPeerLinks",
    "Node",
    "NodeId",
    "Percent",
    "Role",
    "Seconds",
    "Share",
    "ShowsLogs",
    "State",
    "Struck",
    "Undo",
    "UsageError",
    "joined",
    "killed",
    "one_of",
]
