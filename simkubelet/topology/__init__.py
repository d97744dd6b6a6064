"""The topology manager: on which NUMA nodes a container's devices should be.

`settings` says what the node's owner chose, `device_hints` which NUMA nodes could serve a request, `merging` and
`policy` which of them are best and whether that is good enough, `affinity` what follows for the choice of devices, and
`manager` leads a pod through all of it. Everything but the manager's call to allocate is computed without waiting.
"""
