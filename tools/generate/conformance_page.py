"""Write ``docs/conformance.md``: each check of ``simkubelet conform``, from its story, and how known plugins fare.

    python -m tools.generate.conformance_page

With ``--check`` nothing is written and the exit status says whether the committed page is up to date.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from scenarios.conform.checks import GROUPS, Check, all_checks
from scenarios.conform.report import anchor
from scenarios.story.check_spec import Needs, Severity
from simkubelet.apis.documents import load_yaml
from tools.generate.committed_page import write_or_check

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "conformance.md"
_WIDTH: Final = 120

HEAD: Final = """\
# Conformance checks

`simkubelet conform` checks a device plugin in any language against what kubelets do. It needs no cluster: the plugin
runs on a simulated node, which it cannot tell from a real one, and each check is a [story](stories.md) of the catalogue
with the plugin in the place of its own.

<!-- not played: needs your plugin -->
```sh
simkubelet conform -- ./my-plugin --flag
simkubelet conform --only registration --junit conform.xml -- ./my-plugin
simkubelet conform --report results/ -- ./my-plugin        # writes results/index.html, with a timeline of each check
simkubelet conform --list
```

The plugin is started once to see what it registers and lists. Then each check starts it on a node of its own, several
at a time; checks that differ only in what they look at in the end share a start. A verdict is one of these:

| verdict | means | exit status |
| --- | --- | --- |
| passed | the plugin does what the check says | 0 |
| warning | it breaks a rule that no pod notices, or leaves something behind | 0 |
| failed | pods fail, or devices are lost or given twice | 1 |
| unknown | the machine did not let the check finish | 3 |
| skipped | the check does not apply to the plugin, or one that it needs has not passed; the report says why | 0 |

A check that could measure nothing is skipped: whether a plugin leaks memory with each kubelet restart cannot be said of
one that does not register with a new kubelet. Checks that others need are played first, also where `--only` does not
name them.

For each check that does not pass, the report shows which others were skipped for it, the expected and the actual
values, how to fix the plugin, and the part of the trace around it. A plugin that does not register or lists no healthy
device is not checked; the reason is the last line, and the exit status is 1.

## A profile

A profile is a YAML file with what cannot be discovered. Every key may be left out.

<!-- not played: needs your plugin -->
```yaml
resource: nvidia.com/gpu             # the resource to check, where the plugin has several
gpus: {profile: t4, count: 2}        # fake GPUs of the node; amd, iluvatar, files as in a story
env: {DEVICE_LIST_STRATEGY: envvar}  # of the plugin
api: false                           # whether it talks to the API server
hostNetwork: false                   # whether it uses the host's network, as one with api does; else a loopback device
break: {fail: {gpu: 0, xid: 79}}     # a step of a story that breaks a device
heal: {heal: {gpu: 0}}               # a step that heals it
breaks: 1                            # how many devices become unhealthy
annotations: {example.com/gpu: "0"}  # of each pod, as the plugin's own scheduler writes them
many:                                # settings with which it lists many devices, and how many
  count: 10000
  env: {REPLICAS: "10000"}           # added to those above, as files: is
wait: 15s                            # how long it may take to register again, or to report a health
watch: 61s                           # how long its lists are watched for one that is sent again
count: 2                             # how many healthy devices it lists
```

`xid: 79` breaks one GPU. With `lost: true`, NVML's wait for events fails, and NVIDIA's plugin marks all its GPUs as
unhealthy: `breaks` is then their number. While a GPU is lost that plugin cannot start (`buildGPUDeviceMap` in
`internal/rm/device_map.go` of v0.19.0), so no plugin lists the other GPUs: `health/survives-a-kubelet-restart` and
`health/survives-a-plugin-restart` fail with `actual absent`.

Each plugin has a network of its own, as in a pod without `hostNetwork`, so that a port that it listens on is free in
every check. Where no namespaces can be made all plugins share the host's.

Steps of `break` and `heal` act on the check's own node. For hardware of this machine use a program:
`{runCommand: {command: [./break.sh]}}`; checks with such a step are played one after the other, when all others are
done.

"""


def example_profile() -> dict[str, Any]:
    """Return the profile that the page shows."""
    return dict(load_yaml(HEAD.partition("```yaml\n")[2].partition("```")[0]))


def _fill(text: str, indent: str = "") -> str:
    return textwrap.fill(
        " ".join(text.split()),
        _WIDTH,
        initial_indent=indent,
        subsequent_indent="  " if indent else "",
        break_long_words=False,
        break_on_hyphens=False,
    )


def needs_text(needs: Needs) -> str:
    """Return what a plugin must have for a check to apply, in words; nothing where it always applies."""
    parts = [
        f"at least {needs.devices} devices" if needs.devices > 1 else "",
        "a plugin that calls Register" if needs.registers else "",
        "a plugin whose socket the kubelet finds in plugins_registry" if needs.found else "",
        "a plugin that asks for PreStartContainer" if needs.pre_start else "",
        "a plugin that offers GetPreferredAllocation" if needs.preferred_allocation else "",
        "a profile with `break`" if needs.breakable and not needs.healable else "",
        "a profile with `break` and `heal`" if needs.healable else "",
        "a profile with `many`" if needs.many else "",
        *(f"[{one}](#{anchor(one)}) to pass" for one in needs.passed),
    ]
    return ", ".join(part for part in parts if part)


def check_lines(check: Check) -> Iterator[str]:
    """Return the section of a check."""
    spec = check.spec
    yield f"### {check.id}"
    yield ""
    yield _fill(check.document.scenario.description)
    yield ""
    verdict = "warning" if spec.severity is Severity.WARNING else "failed"
    yield _fill(f"**Kubelets since {spec.since}:** {spec.kubelet}", "- ")
    yield _fill(f"**Why it matters:** {spec.why}", "- ")
    yield _fill(f"**How to fix it:** {spec.fix}", "- ")
    needs = needs_text(spec.needs)
    yield _fill(f"**Otherwise:** {verdict}." + (f" **Needs** {needs}." if needs else ""), "- ")
    yield ""


def known_lines() -> Iterator[str]:
    """Return the table of plugins whose verdicts are known."""
    yield "## Known verdicts"
    yield ""
    yield _fill(
        "What plugins do not pass, and why: by their sources it is what they should not pass. All others pass, or are "
        "skipped because they do not apply. NVIDIA's plugin is v0.19.0; the bundled `nvidia` gets the same verdicts. "
        "Mellanox' plugin is v1.5.3, on a node with the files of an adapter; the kubelet finds its socket in "
        "plugins_registry, so that checks of Register do not apply. "
        "Kubernetes' sample-device-plugin is that of 1.34.4, with `wait: 30s`, as it registers ten seconds after it "
        "has seen a new kubelet.sock. `amd` is run with `--pulse 1`; without that it reports no health. `gpushare` is "
        "run with `--health-check`, and `gpu-memory`, `gpushare` and `volcano` with the annotations of their "
        "schedulers. `nvidia-mps` registers nothing. `stub` and the plugin of [write-a-plugin.md](write-a-plugin.md) "
        "pass all checks; options of `stub` make it a plugin that does not."
    )
    yield ""
    yield "| plugin | check | verdict | why |"
    yield "| --- | --- | --- | --- |"
    for plugin, check, verdict, why in KNOWN:
        proof = PROOFS.get((plugin, check))
        source = f": `{proof.file}:{proof.line}`" if proof else ""
        yield f"| {plugin} | [{check}](#{anchor(check)}) | {verdict} | {why}{source} |"
    yield ""


class Proof(NamedTuple):
    """A line of a plugin's source, and what it says there."""

    file: str
    line: int
    says: str


NVIDIA: Final = "NVIDIA k8s-device-plugin"
MELLANOX: Final = "Mellanox k8s-rdma-shared-dev-plugin"
PROOFS: Final[Mapping[tuple[str, str], Proof]] = {
    (NVIDIA, "health/recovers"): Proof("internal/plugin/server.go", 277, "no way to recover from the Unhealthy state"),
    (NVIDIA, "health/survives-a-kubelet-restart"): Proof(
        "cmd/nvidia-device-plugin/main.go", 276, "plugins, restartPlugins, err := startPlugins(c, o)"
    ),
    (NVIDIA, "health/survives-a-plugin-restart"): Proof("internal/rm/devices.go", 92, "dev.Health = pluginapi.Healthy"),
    (NVIDIA, "stream/ends"): Proof("cmd/nvidia-device-plugin/main.go", 299, "event.Name == o.kubeletSocket"),
    (NVIDIA, "instances/rolling-update"): Proof("internal/plugin/server.go", 169, "os.Remove(plugin.socket)"),
    (MELLANOX, "allocation/unknown-device"): Proof("pkg/resources/server.go", 388, "ress[i].Devices = rs.deviceSpec"),
    (MELLANOX, "stream/ends"): Proof("pkg/resources/server.go", 319, "return nil"),
    (MELLANOX, "hostile-kubelet/found-refused"): Proof("pkg/resources/server.go", 440, "rs.rsConnector.Stop()"),
    (MELLANOX, "instances/rolling-update"): Proof("pkg/resources/server.go", 415, "os.Remove(rs.socketPath)"),
}
"""Plugin and check -> what shows that the verdict is right, in the version that the page names."""
_ITS_OWN_START: Final = "it notices a new kubelet.sock, and nothing else"
_HEALTHY_AT_ITS_START: Final = "for a new kubelet it discovers its GPUs again, and all are healthy"
_NOT_ITS_DEVICES: Final = "its Allocate counts the ids and does not look at them"
_NOT_ITS_IDS: Final = "its Allocate gives each container the same files, whatever the ids"
_SERVED_ONCE: Final = "its Allocate marks the waiting pod as served, and finds none when it is asked again"
_ONE_SOCKET: Final = "all its instances use one socket name, and the one that ends removes the socket"
_ONE_SOCKET_AND_MANY_TRIES: Final = (
    f"{_ONE_SOCKET}; as it tries again and again, the kubelet takes the new one now and then"
)
KNOWN: Final[Sequence[tuple[str, str, str, str]]] = (
    (NVIDIA, "health/recovers", "warning", "it never looks at an unhealthy GPU again"),
    (
        NVIDIA,
        "health/survives-a-kubelet-restart",
        "failed",
        _HEALTHY_AT_ITS_START,
    ),
    (
        NVIDIA,
        "health/survives-a-plugin-restart",
        "failed",
        "it hears of an XID only while it runs",
    ),
    (NVIDIA, "stream/ends", "failed", _ITS_OWN_START),
    (NVIDIA, "instances/rolling-update", "failed", _ONE_SOCKET),
    (MELLANOX, "allocation/unknown-device", "warning", _NOT_ITS_IDS),
    (MELLANOX, "stream/ends", "failed", "its ListAndWatch returns, and its socket is not made again"),
    (MELLANOX, "hostile-kubelet/found-refused", "failed", "a refusal stops its server for good"),
    (MELLANOX, "instances/rolling-update", "failed", _ONE_SOCKET),
    ("Kubernetes sample-device-plugin", "stream/ends", "failed", _ITS_OWN_START),
    ("`generic`", "instances/rolling-update", "failed", _ONE_SOCKET),
    ("`iluvatar`", "stream/ends", "failed", _ITS_OWN_START),
    ("`iluvatar`", "instances/rolling-update", "failed", "it ends when its registration is refused"),
    ("`gopher`", "registration/same-options", "warning", "it registers without the options that it answers"),
    ("`gopher`", "allocation/unknown-device", "warning", "its Allocate passes on the ids that it gets"),
    ("`gopher`", "kubelet-restart/keeps-its-process", "warning", "it ends when a kubelet makes its socket"),
    ("`gopher`", "stream/ends", "failed", _ITS_OWN_START),
    ("`gopher`", "instances/rolling-update", "failed", "it ends when its registration is refused"),
    ("`amd`", "kubelet-restart/keeps-its-process", "warning", "it ends with its stream, and is started again"),
    ("`amd`", "instances/rolling-update", "failed", "it gives up after three refused registrations, in six seconds"),
    ("`amd`", "shutdown/removes-its-socket", "warning", "its framework leaves the socket"),
    ("`gpushare`", "allocation/unknown-device", "warning", _NOT_ITS_DEVICES),
    ("`gpushare`", "health/recovers", "warning", "it never looks at an unhealthy GPU again"),
    ("`gpushare`", "health/survives-a-kubelet-restart", "failed", _HEALTHY_AT_ITS_START),
    ("`gpushare`", "health/survives-a-plugin-restart", "failed", "it hears of an XID only while it runs"),
    ("`gpushare`", "stream/ends", "failed", _ITS_OWN_START),
    ("`gpushare`", "instances/rolling-update", "failed", "it ends when its registration is refused"),
    ("`gpu-memory`", "allocation/asked-again", "failed", _SERVED_ONCE),
    ("`gpu-memory`", "allocation/init-container", "failed", _SERVED_ONCE),
    ("`gpu-memory`", "allocation/unknown-device", "warning", _NOT_ITS_DEVICES),
    ("`gpu-memory`", "kubelet-restart/during-admission", "failed", _SERVED_ONCE),
    ("`gpu-memory`", "hostile-kubelet/always-refused", "warning", "it tries again without a pause"),
    ("`gpu-memory`", "stream/ends", "failed", _ITS_OWN_START),
    ("`gpu-memory`", "instances/rolling-update", "failed", _ONE_SOCKET_AND_MANY_TRIES),
    ("`gpu-memory`", "shutdown/exit-status", "warning", "a signal ends it with status 1"),
    ("`volcano`", "allocation/asked-again", "failed", _SERVED_ONCE),
    ("`volcano`", "allocation/init-container", "failed", _SERVED_ONCE),
    ("`volcano`", "allocation/unknown-device", "warning", _NOT_ITS_DEVICES),
    ("`volcano`", "health/reported", "failed", "the devices that stand for memory are always healthy"),
    ("`volcano`", "kubelet-restart/during-admission", "failed", _SERVED_ONCE),
    ("`volcano`", "hostile-kubelet/always-refused", "warning", "it tries again each tenth of a second"),
    ("`volcano`", "stream/ends", "failed", _ITS_OWN_START),
    ("`volcano`", "instances/rolling-update", "failed", _ONE_SOCKET_AND_MANY_TRIES),
    ("`volcano`", "shutdown/exit-status", "warning", "a signal ends it with status 255"),
)
"""Plugin, check, verdict and why, as the tests find them."""


def page() -> str:
    """Return the page as it should be."""
    lines = [HEAD.rstrip("\n"), ""]
    checks = all_checks()
    lines += list(known_lines())
    for group, title in GROUPS.items():
        members = [check for check in checks if check.group == group]
        if members:
            lines += [f"## {title}", ""]
            lines += [line for check in members for line in check_lines(check)]
    return "\n".join(lines).rstrip("\n") + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page, "conformance_page", __doc__))
