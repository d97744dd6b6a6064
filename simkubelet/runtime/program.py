"""What a container runs, as its manifest says it: argv, working directory, environment, termination message.

The variables may come from config maps, secrets and fields of the pod (`environment`); what they refer to is replaced
when the program is made (`program_of`). What no kernel starts is refused while it is made: a few variables that each
name the one before twice would fill the memory. A kubelet expands them all, and the start fails later.

Source: kubelet/container/helpers.go, ``ExpandContainerCommandAndArgs``; kubelet/kubelet_pods.go,
``makeEnvironmentVariables``, ``podFieldSelectorRuntimeValue``; pkg/fieldpath/fieldpath.go;
third_party/forked/golang/expansion/expand.go (kubernetes v1.34.4); fs/exec.c, ``bprm_stack_limits``,
include/uapi/linux/binfmts.h (Linux 6.1).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from ..cluster_api import ClusterApi
from ..model.errors import InputError
from ..model.pod import Container, Pod
from .container_runtime import ContainerStartError, init_error

__all__ = [
    "ContainerConfigError",
    "Program",
    "check_mounts",
    "container_manifest",
    "environment",
    "expand",
    "program_of",
    "sub_path",
]

# An escaped `$`, or a reference with any name, which need not be one that a shell would take.
_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")
_TERMINATION_LOG: Final = "/dev/termination-log"
_LONGEST_TEXT: Final = 32 * 4096 - 1
"""Bytes of an argument or a variable, without the NUL character at its end."""
_MOST_TEXT: Final = 8 * 2**20 // 4
"""Bytes of all arguments and variables together, with a stack of the usual size."""
_POINTER: Final = 8
_TOO_LONG: Final = "argument list too long"
_SHOWN: Final = 1024

_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
_KINDS: Final = {"configMap": ("configmaps", "configmap", "ConfigMap"), "secret": ("secrets", "secret", "Secret")}


@dataclass(frozen=True, slots=True)
class Program:
    """The process of a container.

    Attributes:
        argv: Command and arguments; empty where the manifest leaves both to the image.
        working_dir: An absolute path, ``/`` where the manifest leaves it to the image.
        env: The pod's variables over those of the plugins.
        termination_message_path: Where the program leaves a message for its status.
        is_log_the_message: Whether the end of the log stands in for a missing message of a failure.
    """

    argv: tuple[str, ...]
    working_dir: str
    env: Mapping[str, str]
    termination_message_path: str
    is_log_the_message: bool


def program_of(pod: Pod, container: Container, plugin_env: Mapping[str, str]) -> Program:
    """What one container of a pod runs; `plugin_env` is what the device plugins added.

    Raises:
        InputError: command or arguments are no lists of texts.
        ContainerStartError: they or the variables are longer than the kernel takes.
    """
    manifest = container_manifest(pod, container)
    words = [*_texts(pod, container, manifest, "command"), *_texts(pod, container, manifest, "args")]
    try:
        argv, env = _expanded(words, container.env, plugin_env)
    except ContainerStartError:
        # The image's own program, where the manifest names none, is not known.
        program = words[0] if words else container.name
        raise init_error(f"exec {program[:_SHOWN]}: {_TOO_LONG}") from None
    return Program(
        argv=argv,
        working_dir=str(manifest.get("workingDir") or "/"),
        env=env,
        termination_message_path=str(manifest.get("terminationMessagePath") or _TERMINATION_LOG),
        is_log_the_message=manifest.get("terminationMessagePolicy") == "FallbackToLogsOnError",
    )


def _expanded(
    words: Iterable[str], own: Mapping[str, str], plugin_env: Mapping[str, str]
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """Arguments and variables without references; raises `ContainerStartError`."""
    room = _Room()
    expanded: dict[str, str] = {}
    for name, value in own.items():
        expanded[name] = expand(value, expanded)
        room.take(f"{name}={expanded[name]}")
    for name in plugin_env.keys() - own.keys():
        room.take(f"{name}={plugin_env[name]}")
    env = {**plugin_env, **expanded}
    argv = []
    for word in words:
        argv.append(expand(word, env))
        room.take(argv[-1])
    return tuple(argv), env


class _Room:
    """What is left of the space for arguments and variables of a new process."""

    def __init__(self) -> None:
        self._left = _MOST_TEXT

    def take(self, text: str) -> None:
        """Raises `ContainerStartError` where there is none for a text."""
        size = len(text.encode(errors="surrogatepass"))
        self._left -= size + 1 + _POINTER
        if size > _LONGEST_TEXT or self._left < 0:
            raise init_error(_TOO_LONG)


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace each ``$(NAME)`` by its variable, where there is one; ``$$`` is a ``$`` that begins no reference.

    Raises:
        ContainerStartError: the result is longer than the kernel takes an argument or a variable.
    """
    parts, end, length = [], 0, 0
    for found in _REFERENCE.finditer(text):
        new = "$" if found[0] == "$$" else variables.get(found[1], found[0])
        parts += [text[end : found.start()], new]
        length += found.start() - end + len(new)
        end = found.end()
        if length > _LONGEST_TEXT:
            raise init_error(_TOO_LONG)
    return "".join([*parts, text[end:]])


def container_manifest(pod: Pod, container: Container) -> Mapping[str, Any]:
    """What a pod's manifest says of one of its containers."""
    return pod.spec_of(container.name)


def _texts(pod: Pod, container: Container, manifest: Mapping[str, Any], key: str) -> tuple[str, ...]:
    texts = manifest.get(key) or ()
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise InputError(f"pod {pod.name!r}: container {container.name!r}: {key}: must be a list of texts")
    return tuple(texts)


def check_mounts(pod: Pod, container: Container, own: Mapping[str, str], plugin_env: Mapping[str, str]) -> None:
    """Check where in their volumes the mounts of a container begin.

    Args:
        pod: it has the container.
        container: whose mounts.
        own: its variables, in which references are not yet replaced.
        plugin_env: what the device plugins added.

    Raises:
        ContainerConfigError: see `sub_path`.
    """
    mounts = [one for one in container_manifest(pod, container).get("volumeMounts") or () if one.get("subPathExpr")]
    # Variables that are too long are the runtime's to refuse.
    with suppress(ContainerStartError):
        env = _expanded((), own, plugin_env)[1] if mounts else {}
        for mount in mounts:
            sub_path(mount, env)


def sub_path(mount: Mapping[str, Any], env: Mapping[str, str]) -> str:
    """Where in its volume a mount begins, a relative path; empty where it has all of the volume.

    Raises:
        ContainerConfigError: a variable is missing or empty, or the path leads out of the volume.
        ContainerStartError: the path is longer than the kernel takes a variable.

    Source: kubelet/container/helpers.go, ``ExpandContainerVolumeMounts``; kubelet/kubelet_pods.go, ``makeMounts``;
    pkg/volume/validation/pv_validation.go, ``ValidatePathNoBacksteps`` (kubernetes v1.34.4; the same from v1.26.15 to
    v1.37.2).
    """
    expression = mount.get("subPathExpr") or ""
    names = {found[1] for found in _REFERENCE.finditer(expression) if found[0] != "$$"}
    if missing := sorted(name for name in names if not env.get(name)):
        raise ContainerConfigError(f"missing value for {', '.join(missing)}")
    path = expand(expression, env) or mount.get("subPath") or ""
    if path.startswith("/"):
        raise ContainerConfigError(f"error SubPath `{path}` must not be an absolute path")
    if ".." in path.split("/"):
        raise ContainerConfigError(f"unable to provision SubPath `{path}`: must not contain '..'")
    return path


class ContainerConfigError(Exception):
    """What a container's variables or mounts refer to is not there or not allowed; the message is the kubelet's."""


def environment(pod: Pod, container: Container, cluster: ClusterApi) -> Mapping[str, str]:
    """The container's own variables in order; references in them are not yet replaced.

    Raises:
        ContainerConfigError: a config map, a secret or a key of one is not there.
    """
    manifest = container_manifest(pod, container)
    found: dict[str, str] = {}
    for source in manifest.get("envFrom") or ():
        for field in _KINDS:
            values = _values(pod, field, source.get(f"{field}Ref"), cluster) or {}
            found |= {f"{source.get('prefix') or ''}{name}": _plain(value) for name, value in values.items()}
    for entry in manifest.get("env") or ():
        value = container.env[entry["name"]] or _from_elsewhere(pod, entry.get("valueFrom") or {}, cluster)
        if value is not None:
            found[entry["name"]] = value
    return found


def _from_elsewhere(pod: Pod, source: Mapping[str, Any], cluster: ClusterApi) -> str | None:
    """The value of a variable; None where it is optional and not there."""
    if reference := source.get("fieldRef"):
        return _plain(_field(pod, str(reference.get("fieldPath"))))
    for field, (_, _, kind) in _KINDS.items():
        reference = source.get(f"{field}KeyRef")
        if reference is None:
            continue
        values, key = _values(pod, field, reference, cluster), reference.get("key")
        if values is not None and key in values:
            return _plain(values[key])
        if reference.get("optional"):
            return None
        raise ContainerConfigError(f"couldn't find key {key} in {kind} {pod.namespace}/{reference.get('name')}")
    return ""


def _values(pod: Pod, field: str, reference: Mapping[str, Any] | None, cluster: ClusterApi) -> dict[str, str] | None:
    """The texts of a config map or secret; None where it is optional and not there."""
    if reference is None:
        return None
    plural, singular, _ = _KINDS[field]
    name = str(reference.get("name") or "")
    found = cluster.read_object(plural, pod.namespace, name)
    if found is None:
        if reference.get("optional"):
            return None
        raise ContainerConfigError(f'{singular} "{name}" not found')
    return dict(found.get("data") or {}) if field == "configMap" else dict(_decoded(found.get("data") or {}))


def _decoded(data: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, text in data.items():
        yield name, base64.b64decode(text).decode(errors="surrogateescape")


def _field(pod: Pod, path: str) -> str:
    metadata: Mapping[str, Any] = pod.manifest.get("metadata") or {}
    if found := _SUBSCRIPT.fullmatch(path):
        return str((metadata.get(found[1]) or {}).get(found[2], ""))
    own = {
        "metadata.name": pod.name,
        "metadata.namespace": pod.namespace,
        "metadata.uid": pod.uid,
        "spec.nodeName": pod.node_name or "",
        "spec.serviceAccountName": str(pod.spec.get("serviceAccountName") or "default"),
    }
    status: Mapping[str, Any] = pod.manifest.get("status") or {}
    return own.get(path, str(status.get(path.removeprefix("status.")) or ""))


def _plain(value: str) -> str:
    """A value in which nothing is a reference."""
    return value.replace("$", "$$")
