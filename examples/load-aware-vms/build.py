"""Writes the cluster of this example: 12 nodes, 130 virtual machines, what each one wants.

    python build.py [SEED]

The first half of the machines is busy and sits on the first half of the nodes, for no reason that
requests could show: KubeVirt requests a tenth of a machine's cpus, busy or idle.
"""

import json
import random
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
SEED = 2
NODES, MACHINES, CORES = 12, 130, 32
TAKEN_AT = "2026-01-31T12:00:00Z"
STARTED_AT = "2026-01-29T08:00:00Z"
QUERY = "avg by (instance) (rate(node_pressure_cpu_waiting_seconds_total[1m]))"
SIZES = {"small": (2, 4), "medium": (4, 8), "large": (8, 16)}
"""Cpus, and GiB of memory."""
SHARES = (25, 45, 30)
"""How many machines of a hundred are of each size."""
BUSY, IDLE = (0.75, 1.0), (0.05, 0.35)
"""How much of its cpus a machine wants, from and to."""

Object = dict[str, Any]


class Machine(NamedTuple):
    """A virtual machine, where it is, and how many cores it wants."""

    name: str
    size: str
    node: str
    wants: float

    @property
    def key(self) -> str:
        return f"vms/virt-launcher-{self.name}"


def machines(seed: int = SEED) -> list[Machine]:
    """All machines; the same for the same seed."""
    chance = random.Random(seed)
    found = []
    for half, usage in enumerate((BUSY, IDLE)):
        nodes = range(half * NODES // 2, (half + 1) * NODES // 2)
        sizes = chance.choices(list(SIZES), SHARES, k=MACHINES // 2)
        # The large ones first, each to the next node: so all nodes request about the same.
        for i, size in enumerate(sorted(sizes, key=list(SIZES).index, reverse=True)):
            number = len(found) + 1
            wants = round(SIZES[size][0] * chance.uniform(*usage), 2)
            found.append(Machine(f"vm-{number:03}", size, name(nodes[i % len(nodes)]), wants))
    return found


def name(number: int) -> str:
    return f"node-{number + 1:02}"


def cluster(fleet: Iterable[Machine]) -> Iterator[Object]:
    """Nodes and pods as the API server has them, and what Prometheus says of the nodes."""
    every = list(fleet)
    yield from (node(name(i)) for i in range(NODES))
    yield from map(launcher, every)
    yield budget("virt-controller")
    samples = []
    for i in range(NODES):
        wanted = sum(it.wants for it in every if it.node == name(i))
        number = max(0.0, 1 - CORES / wanted)
        samples.append({"node": name(i), "number": f"{number:.4f}", "at": TAKEN_AT})
    yield {
        "apiVersion": "resettle/v1",
        "kind": "QueryAnswer",
        "query": QUERY,
        "nodeLabel": "instance",
        "samples": samples,
    }


def node(called: str) -> Object:
    offer = {"cpu": str(CORES), "memory": "192Gi", "pods": "250"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": called,
            "labels": {
                "kubernetes.io/hostname": called,
                "node-role.kubernetes.io/worker": "",
                "kubevirt.io/schedulable": "true",
            },
        },
        "status": {
            "allocatable": offer,
            "capacity": offer,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def launcher(machine: Machine) -> Object:
    """The pod that a virtual machine runs in."""
    cpus, memory = SIZES[machine.size]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"virt-launcher-{machine.name}",
            "namespace": "vms",
            "uid": f"uid-{machine.name}",
            "creationTimestamp": STARTED_AT,
            "labels": {"kubevirt.io": "virt-launcher", "vm.kubevirt.io/name": machine.name},
            "annotations": {
                "descheduler.alpha.kubernetes.io/request-evict-only": "",
                "kubevirt.io/domain": machine.name,
            },
            "ownerReferences": [
                {
                    "apiVersion": "kubevirt.io/v1",
                    "kind": "VirtualMachineInstance",
                    "name": machine.name,
                    "uid": f"uid-vmi-{machine.name}",
                    "controller": True,
                }
            ],
        },
        "spec": {
            "nodeName": machine.node,
            "nodeSelector": {"kubevirt.io/schedulable": "true"},
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "compute",
                    "image": "quay.io/kubevirt/virt-launcher",
                    "resources": {
                        "requests": {"cpu": f"{cpus * 100}m", "memory": f"{memory * 1024 + 300}Mi"}
                    },
                }
            ],
            "volumes": [{"name": "private", "emptyDir": {}}, {"name": "sockets", "emptyDir": {}}],
        },
        "status": {
            "phase": "Running",
            "startTime": STARTED_AT,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def budget(of: str) -> Object:
    """The budget of a part of KubeVirt; machines themselves have none."""
    labels = {"kubevirt.io": of}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"{of}-pdb", "namespace": "kubevirt"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1},
    }


def cluster_text(fleet: Iterable[Machine]) -> str:
    """A dump with an object on each line."""
    lines = ",\n".join(json.dumps(it) for it in cluster(fleet))
    head = {"annotations": {"resettle/taken-at": TAKEN_AT}}
    return (
        f'{{"apiVersion": "v1", "kind": "List", "metadata": {json.dumps(head)}, "items": [\n'
        f"{lines}\n]}}\n"
    )


def loads_text(fleet: Iterable[Machine]) -> str:
    """What each machine wants."""
    wants = "\n".join(f"  {it.key}: {it.wants}" for it in fleet)
    return (
        "# How many cores each virtual machine demands, wherever it runs; written by build.py.\n"
        f"queries:\n  Pressure: {QUERY}\npods:\n{wants}\n"
    )


if __name__ == "__main__":
    made = machines(*map(int, sys.argv[1:]))
    (HERE / "cluster.json").write_text(cluster_text(made), encoding="utf-8")
    (HERE / "loads.yaml").write_text(loads_text(made), encoding="utf-8")
