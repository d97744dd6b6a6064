"""The topology manager: on which NUMA nodes a container's devices should be.

`hint` has what a resource proposes and how the proposals are merged, `policy` which proposals count and whether the
merged one is good enough, `manager` the admission of a pod by it. Everything but the manager's call to allocate is
computed without waiting. The hints of devices are made in `devices.topology_hints`.
"""
