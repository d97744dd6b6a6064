"""What a backend may be able to do: nodes, plugins and verbs declare which of it they need."""

from __future__ import annotations

from enum import StrEnum


class Capability(StrEnum):
    """What not every backend can do; the value completes "cannot …" in a reason to skip."""

    SEVERAL_NODES = "run so many nodes"
    FAKE_GPUS = "give a node fake GPUs"
    GPU_FAULTS = "inject GPU faults"
    NODE_FILES = "change files on a node"
    NODE_FOLDERS = "take a folder from a node"
    RESTART_KUBELET = "restart a kubelet"
    REBOOT_NODE = "reboot a node"
    POD_ORDER = "choose the order in which a kubelet admits pods"
    FULL_DISK = "leave a kubelet no room for its checkpoint"
    SYNC_NODE_STATUS = "let a kubelet publish its node at will"
    PAUSE_RUNTIME = "pause a container runtime"
    REFUSE_CRI = "let a container runtime refuse calls"
    CHANGE_CHECKPOINT = "change a kubelet's checkpoint"
    KUBELET_SETTINGS = "set up a kubelet's topology policy or feature gates"
    API_FEATURE_GATES = "switch a feature gate that the API server has too"
    FAKE_NUMA_NODES = "give a machine NUMA nodes"
    PROCESS_RUNTIME = "run the processes of containers"
    EXIT_CONTAINER = "let a container end by itself"
    PLUGIN_PROCESSES = "start and stop a plugin at will"
    ADVANCE_TIME = "let node time pass at will"
    BUILTIN_PLUGINS = "run the bundled plugins"
    COMMAND_PLUGINS = "run any program as a plugin"
    NODE_VIEW = "show plugins their node as its root sees it"
