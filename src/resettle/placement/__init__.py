"""Which nodes would take a pod, now and once the plan so far is carried out.

`projection` asks the scheduler's filters (capacity, ports, volumes, affinity, topology spread,
taints) over pods as they will be; `scoring` says which node the scheduler would choose;
`upstream_fit` is the weaker check of kubernetes-sigs/descheduler (NodeFit); `diagnosis` says why
nodes do not take a pod. It proposes no moves. Start with `projection`. `framework`, `plugins`,
`simulate`, `explain` and `testing` import it.

Import from outside: `capacity`, `diagnosis`, `pod_locations`, `projection`, `topology_spread`,
`upstream_fit`, `volumes`.
"""
