"""What the pod of each plugin needs of its node and of the cluster, as the originals' manifests have it.

Paths are the node's, and lie at the same place in the container.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, Final

__all__ = ["NEEDS", "PodNeeds"]


@dataclass(frozen=True, slots=True)
class PodNeeds:
    """The needs of one plugin with its options.

    Attributes:
        folders: Folders of the node; one that is missing is made.
        mounts: Path in the container → folder of the node, of those that lie elsewhere.
        config: The option that names a file, and the file, which a ConfigMap carries.
        env: Variables.
        has_node_name: Whether ``NODE_NAME`` tells the node's name.
        rules: What its service account may do in the cluster; none: it needs no service account.
        is_privileged: Whether it may do everything on the node.
        capabilities: Linux capabilities that it keeps; all others are dropped.
        taint: The key of a taint that it tolerates.
    """

    folders: tuple[str, ...] = ()
    mounts: Mapping[str, str] = field(default_factory=dict)
    config: tuple[str, Path] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    has_node_name: bool = False
    rules: tuple[Mapping[str, Any], ...] = ()
    is_privileged: bool = False
    capabilities: tuple[str, ...] = ()
    taint: str = ""


def _amd(_options: Mapping[str, Any]) -> PodNeeds:
    return PodNeeds(folders=("/sys", "/var/lib/amd-metrics-exporter"), taint="amd.com/gpu")


def _generic(options: Mapping[str, Any]) -> PodNeeds:
    from ..generic.description import Description

    folders = {_folder_of(glob.glob) for glob in Description.read(options["config"]).globs}
    return PodNeeds(folders=tuple(sorted(folders)), config=("--config", options["config"]))


def _folder_of(glob: str) -> str:
    """The deepest folder in which all files of a glob lie."""
    parents = PurePosixPath(glob).parents
    return str(next(folder for folder in parents if not set("*?[") & set(str(folder))))


def _gopher(options: Mapping[str, Any]) -> PodNeeds:
    return PodNeeds(folders=(str(options["directory"]),))


def _iluvatar(options: Mapping[str, Any]) -> PodNeeds:
    config = ("--config-file", options["config_file"])
    return PodNeeds(folders=("/sys", "/dev"), config=config, is_privileged=True, taint="iluvatar.com/gpu")


def _nvidia(options: Mapping[str, Any]) -> PodNeeds:
    """Source: deployments/helm/nvidia-device-plugin (k8s-device-plugin v0.19.0)."""
    config = options.get("config_file")
    driver_root = options.get("nvidia_driver_root") or "/"
    mps_root = options.get("mps_root")
    is_divided = options.get("mig_strategy") in ("single", "mixed")
    return PodNeeds(
        folders=("/var/run/cdi",),
        mounts={"/driver-root": driver_root, **(_mps_mounts(mps_root) if mps_root else {})},
        config=("--config-file", Path(config)) if config else None,
        env={
            "NVIDIA_VISIBLE_DEVICES": "all",
            "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
            **({"NVIDIA_MIG_MONITOR_DEVICES": "all"} if is_divided else {}),
        },
        is_privileged=bool(options.get("pass_device_specs")),
        capabilities=("SYS_ADMIN",) if is_divided else (),
        taint="nvidia.com/gpu",
    )


def _nvidia_mps(options: Mapping[str, Any]) -> PodNeeds:
    """Source: deployments/helm/nvidia-device-plugin, daemonset-mps-control-daemon.yml (k8s-device-plugin v0.19.0)."""
    config = options.get("config_file")
    return PodNeeds(
        mounts=_mps_mounts("/run/nvidia/mps"),
        config=("--config-file", Path(config)) if config else None,
        env={"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"},
        is_privileged=True,
        taint="nvidia.com/gpu",
    )


def _mps_mounts(root: str) -> dict[str, str]:
    return {"/mps": root, "/dev/shm": f"{root}/shm"}  # noqa: S108  # where the control daemon shares its memory


def _rule(group: str, resources: list[str], *verbs: str) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}


_GPU_ENV: Final = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "utility"}
_PODS: Final = _rule("", ["pods"], "get", "list", "update", "patch")


def _gpu_memory(_options: Mapping[str, Any]) -> PodNeeds:
    rules = (_PODS, _rule("", ["nodes"], "get"), _rule("", ["nodes/status"], "update"))
    return PodNeeds(env=_GPU_ENV, has_node_name=True, rules=rules)


def _gpushare(options: Mapping[str, Any]) -> PodNeeds:
    nodes = ["nodes", "nodes/proxy"] if options.get("query_kubelet") else ["nodes"]
    rules = (_PODS, _rule("", nodes, "get"), _rule("", ["nodes/status"], "patch"))
    return PodNeeds(env=_GPU_ENV, has_node_name=True, rules=rules, taint="aliyun.com/gpu-mem")


def _volcano(options: Mapping[str, Any]) -> PodNeeds:
    rules = (_PODS, _rule("", ["nodes"], "get", "update", "patch"), _rule("", ["nodes/status"], "patch"))
    config = options.get("config_file")
    is_split = options.get("gpu_strategy") == "vgpu"
    return PodNeeds(
        # The folder of HAMi's library and, where a lock and caches are made, that of temporary files.
        folders=("/tmp", "/usr/local/vgpu") if is_split else (),  # noqa: S108
        config=("--config-file", Path(config)) if config else None,
        env={**_GPU_ENV, **({"HOOK_PATH": "/usr/local/vgpu"} if is_split else {})},
        has_node_name=True,
        rules=rules,
        taint="volcano.sh/gpu-memory",
    )


NEEDS: Final[Mapping[str, Callable[[Mapping[str, Any]], PodNeeds]]] = MappingProxyType(
    {
        "amd": _amd,
        "generic": _generic,
        "gopher": _gopher,
        "gpu-memory": _gpu_memory,
        "gpushare": _gpushare,
        "iluvatar": _iluvatar,
        "nvidia": _nvidia,
        "nvidia-mps": _nvidia_mps,
        "volcano": _volcano,
    }
)
"""Name of a plugin → its needs with the options of a command line."""
