"""What the scheduler decides about claims: which devices of which ResourceSlices they get.

`allocator` searches devices for the claims of one pod on one node, `claims` follows the objects, and `plugin` answers
the scheduler. Nothing here awaits or reads a clock.

Source: pkg/scheduler/framework/plugins/dynamicresources (kubernetes v1.34.4); k8s.io/dynamic-resource-allocation
v0.34.4, structured.
"""
