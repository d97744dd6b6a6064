"""A kubelet's settings for one story: its configuration file, changed before the story and taken back after it.

Source: staging/src/k8s.io/kubelet/config/v1beta1/types.go, ``KubeletConfiguration`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import yaml

from ...story.node_spec import NodeSpec, TopologySpec
from .node import CRI, PLUGIN_FOLDER, KindNode

_VERBOSITY: Final = 2
"""At which a kubelet logs registrations and lists. Source: devicemanager/manager.go, plugin/v1beta1/server.go."""
_FILE: Final = "/var/lib/kubelet/config.yaml"
_ORIGINAL: Final = f"{_FILE}.simkubelet"
_KEEP: Final = f"[ -e {_ORIGINAL} ] || {{ cp -p {_FILE} {_ORIGINAL}.new && mv {_ORIGINAL}.new {_ORIGINAL}; }}"
_WRITE: Final = f"cat >{_FILE}.new && mv {_FILE}.new {_FILE}"
_TAKE_BACK: Final = f"[ ! -e {_ORIGINAL} ] || {{ mv {_ORIGINAL} {_FILE} && echo changed; }}"


async def set_up(node: KindNode, spec: NodeSpec, has_cri_tap: bool) -> None:
    """Start the kubelet anew where the story wants other settings than the cluster has.

    Args:
        node: The kubelet's.
        spec: What the story says of it.
        has_cri_tap: Whether the agent stands between the kubelet and the container runtime.

    Raises:
        HostError: It does not come up with them.
    """
    settings = yaml.safe_load(await node.run("cat", _FILE))
    changed = changed_settings(settings, spec)
    if has_cri_tap:
        await node.ask("add_cri_tap")
        changed["containerRuntimeEndpoint"] = f"unix://{CRI}"
    if changed == settings:
        return
    await node.systemctl("stop")
    # What the old instance leaves must not be taken for the new one's.
    await node.run("rm", "-f", f"{PLUGIN_FOLDER}/kubelet.sock")
    await node.run("sh", "-c", _KEEP)
    await node.run("sh", "-c", _WRITE, given=json.dumps(changed).encode())
    await node.systemctl("start")
    await node.until_serving()


async def take_back(node: KindNode) -> bool:
    """Restore the cluster's settings, for the next start of the kubelet; whether they were others."""
    return bool((await node.run("sh", "-c", _TAKE_BACK)).strip())


def changed_settings(settings: Mapping[str, Any], spec: NodeSpec) -> dict[str, Any]:
    """A ``KubeletConfiguration`` with what a story says of the node, and a log that tells enough."""
    topology, logging = spec.topology, settings.get("logging") or {}
    told = {**settings, "logging": {**logging, "verbosity": max(logging.get("verbosity", 0), _VERBOSITY)}}
    if topology == TopologySpec() and not spec.feature_gates:
        return told
    return {
        **told,
        "topologyManagerPolicy": topology.policy,
        "topologyManagerScope": topology.scope,
        "topologyManagerPolicyOptions": dict(topology.options),
        "featureGates": {**(settings.get("featureGates") or {}), **spec.feature_gates},
    }
