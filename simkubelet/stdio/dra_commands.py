"""Commands about the DRA manager as a whole: start and stop, its cluster, its drivers, its files, its time."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ..dra.checkpoint import CHECKPOINT_NAME, BadCheckpointError
from ..dra.pod_claims import DynamicResourcesError
from .dra_node import CLAIMS, SLICES, DraNode
from .request import Fields, RequestError
from .session import Answer, CommandFailedError, CommandTable, set_gate

__all__ = ["commands"]

commands: Final = CommandTable[DraNode]()

_SETTINGS: Final = ("node", "wiping_ms", "watch")
_RESOURCES: Final = {CLAIMS: "resourceclaims", SLICES: "resourceslices"}


@commands.add(*_SETTINGS, needs_manager=False)
async def do_start(node: DraNode, fields: Fields) -> Answer:
    """Read the checkpoint and wipe the node's ResourceSlices; what is left out stays as it was at the last start."""
    if node.is_running:
        raise CommandFailedError("a manager runs already: stop it first, or restart")
    return _started(node, fields)


@commands.add(*_SETTINGS, needs_manager=False)
async def do_restart(node: DraNode, fields: Fields) -> Answer:
    """Stop the manager, if one runs, and start the next one; drivers have to register again."""
    await node.stop()
    return _started(node, fields)


def _started(node: DraNode, fields: Fields) -> Answer:
    node.change(fields)
    try:
        node.start()
    except BadCheckpointError as error:
        raise CommandFailedError(str(error)) from None
    return {}


@commands.add()
async def do_stop(node: DraNode, fields: Fields) -> Answer:
    """Disconnect every driver."""
    await node.stop()
    return {}


@commands.add("name", "value", needs_manager=False)
async def do_set_gate(node: DraNode, fields: Fields) -> Answer:
    """Set a feature gate of the kubelet, for the next start."""
    set_gate(node.gates, node.version, fields)
    return {}


# The cluster


@commands.add("kind", "object", needs_manager=False)
async def do_put(node: DraNode, fields: Fields) -> Answer:
    """Create a ResourceClaim or ResourceSlice, or put it in the place of the one of its name."""
    kind, written = _kind(fields), fields.mapping("object")
    parts = Fields(written, "object.")
    metadata = Fields(parts.mapping("metadata"), "object.metadata.")
    # Slices are read where no command is there to fail.
    parts.mapping("spec", {})
    node.cluster.objects[kind][metadata.text("namespace", ""), metadata.text("name")] = written
    return {}


@commands.add("kind", "namespace", "name", needs_manager=False)
async def do_delete(node: DraNode, fields: Fields) -> Answer:
    """Remove a ResourceClaim or ResourceSlice."""
    kind, name = _kind(fields), fields.text("name")
    if node.cluster.objects[kind].pop((fields.text("namespace", ""), name), None) is None:
        raise CommandFailedError(f'{_RESOURCES[kind]}.resource.k8s.io "{name}" not found')
    return {}


@commands.add(needs_manager=False)
async def do_slices(node: DraNode, fields: Fields) -> Answer:
    """The ResourceSlices that are left, and the field selectors with which the manager has wiped slices."""
    return {"slices": sorted(name for _, name in node.cluster.objects[SLICES]), "wipes": list(node.cluster.wipes)}


def _kind(fields: Fields) -> str:
    kind = fields.text("kind")
    if kind not in _RESOURCES:
        raise RequestError(f"kind: no kind {kind!r}; give {' or '.join(_RESOURCES)}")
    return kind


# Drivers


@commands.add("driver", "endpoint", "services")
async def do_register(node: DraNode, fields: Fields) -> Answer:
    """Take a plugin as the plugin watcher found it; stage says what refused it."""
    driver, endpoint, services = _plugin(node, fields)
    refusal = node.manager.plugins.validate(driver, endpoint, services)
    if refusal is not None:
        raise CommandFailedError(refusal, stage="validate")
    refusal = await node.manager.plugins.register(driver, endpoint, services)
    if refusal is not None:
        raise CommandFailedError(refusal, stage="register")
    return {}


@commands.add("driver", "endpoint", "services")
async def do_deregister(node: DraNode, fields: Fields) -> Answer:
    """Give up a plugin, as when its registration socket is gone."""
    driver, endpoint, _ = _plugin(node, fields)
    await node.manager.plugins.deregister(driver, endpoint)
    return {}


@commands.add("driver")
async def do_plugin(node: DraNode, fields: Fields) -> Answer:
    """The instances of a driver's plugin, oldest first, and the endpoint of the one that is called."""
    driver = fields.text("driver")
    try:
        used = node.manager.plugins.find(driver)
    except DynamicResourcesError as error:
        raise CommandFailedError(str(error)) from None
    plugins = [
        {"endpoint": plugin.endpoint, "service": plugin.service, "connected": plugin.is_connected}
        for plugin in node.manager.plugins.of_driver(driver)
    ]
    return {"plugins": plugins, "used": used.endpoint}


def _plugin(node: DraNode, fields: Fields) -> tuple[str, str, list[str]]:
    services = fields.texts("services") if "services" in fields else []
    return fields.text("driver"), str(node.directory / fields.text("endpoint")), services


# Files and time


@commands.add(needs_manager=False)
async def do_checkpoint(node: DraNode, fields: Fields) -> Answer:
    """Return the checkpoint as it is in the folder."""
    path = _checkpoint(node)
    try:
        return {"text": path.read_text(encoding="utf-8", errors="replace")}
    except FileNotFoundError:
        raise CommandFailedError(f"open {path}: no such file or directory", text="") from None


@commands.add("text", needs_manager=False)
async def do_write_checkpoint(node: DraNode, fields: Fields) -> Answer:
    """Put a text in the checkpoint's place, whatever it is."""
    _checkpoint(node).write_text(fields.text("text"), encoding="utf-8")
    return {}


@commands.add(needs_manager=False)
async def do_ls(node: DraNode, fields: Fields) -> Answer:
    """Return the names of the folder's files."""
    return {"files": sorted(path.name for path in node.directory.iterdir())}


@commands.add("timeout_ms", needs_manager=False)
async def do_sleep(node: DraNode, fields: Fields) -> Answer:
    """Let time pass on the node."""
    await node.clock.sleep(fields.number("timeout_ms") / 1000)
    return {}


def _checkpoint(node: DraNode) -> Path:
    return node.directory / CHECKPOINT_NAME
