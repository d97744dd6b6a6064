"""A small DRA driver for Linux nodes: it gives each claim one device, without hardware.

It has what a kubelet asks of a driver: a plugin with the two calls, the registration that the kubelet finds, and a file
for the container runtime (CDI) for each prepared claim. It does not talk to the API server: a real driver publishes its
devices as ResourceSlices, and reads from the claim which of them were allocated.

The calls may be repeated, and the file of a claim lasts: so it answers the same after a restart.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
from pathlib import Path
from typing import Any

from simkubelet.apis import dra
from simkubelet.apis.cdi import CdiDevice, CdiSpec, ContainerEdits
from simkubelet.apis.grpcwire.served_call import UnaryMethod
from simkubelet.apis.grpcwire.server import GrpcServer
from simkubelet.apis.pluginregistration import (
    PLUGINS_REGISTRY,
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)

SUPPORTED = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
"""The services that it serves: kubelets before 1.34 call the second one. Their messages are the same on the wire."""


class Driver:
    """The plugin of one driver.

    Args:
        name: The driver's name, such as ``dra.example.com``.
        cdi: The folder of CDI specifications.
    """

    def __init__(self, name: str, cdi: Path) -> None:
        self.name = name
        self._cdi = cdi

    @property
    def methods(self) -> dict[str, Any]:
        """The calls that the kubelet makes, by their names on the wire."""
        calls = {
            "NodePrepareResources": UnaryMethod(dra.NodePrepareResourcesRequest.FromString, self.prepare),
            "NodeUnprepareResources": UnaryMethod(dra.NodeUnprepareResourcesRequest.FromString, self.unprepare),
        }
        return {f"/{dra.SERVICES[one]}/{name}": call for one in SUPPORTED for name, call in calls.items()}

    async def prepare(self, request: dra.NodePrepareResourcesRequest) -> dra.NodePrepareResourcesResponse:
        """Write the CDI specification of each claim, and name its device."""
        return dra.NodePrepareResourcesResponse(claims={claim.uid: self._prepared(claim) for claim in request.claims})

    async def unprepare(self, request: dra.NodeUnprepareResourcesRequest) -> dra.NodeUnprepareResourcesResponse:
        """Remove what was written for each claim, if anything is."""
        for claim in request.claims:
            self._file(claim).unlink(missing_ok=True)
            print(f"unprepared {claim.namespace}/{claim.name}", flush=True)
        answers = {claim.uid: dra.NodeUnprepareResourceResponse() for claim in request.claims}
        return dra.NodeUnprepareResourcesResponse(claims=answers)

    def _prepared(self, claim: dra.Claim) -> dra.NodePrepareResourceResponse:
        edits = ContainerEdits(env=(f"DRA_CLAIM={claim.name}",))
        spec = CdiSpec(
            cdi_version="0.5.0",
            kind=f"{self.name}/claim",
            devices=(CdiDevice(name=claim.name, container_edits=edits),),
        )
        # A runtime must never read half a file.
        written = self._file(claim).with_suffix(".new")
        written.write_text(json.dumps(spec.to_json()), encoding="utf-8")
        written.rename(self._file(claim))
        print(f"prepared {claim.namespace}/{claim.name}", flush=True)
        device = dra.Device(pool_name="node", device_name="device-0", cdi_device_ids=[f"{spec.kind}={claim.name}"])
        return dra.NodePrepareResourceResponse(devices=[device])

    def _file(self, claim: dra.Claim) -> Path:
        return self._cdi / f"{self.name}-{claim.uid}.json"


async def _notified(status: RegistrationStatus) -> RegistrationStatusResponse:
    print("registered" if status.plugin_registered else f"refused: {status.error}", flush=True)
    return RegistrationStatusResponse()


async def run(driver: Driver, kubelet: Path, instance: str = "") -> None:
    """Serve until SIGTERM; the kubelet learns of the end by the socket of the registration.

    Args:
        driver: The plugin.
        kubelet: The kubelet's root directory.
        instance: What distinguishes this process from another one of the same driver, as in a rolling update.
    """
    suffix = f"-{instance}" if instance else ""
    endpoint = kubelet / "plugins" / driver.name / f"dra{suffix}.sock"
    registration = kubelet / PLUGINS_REGISTRY / f"{driver.name}{suffix}-reg.sock"
    info = PluginInfo(type=dra.DRA_PLUGIN_TYPE, name=driver.name, endpoint=str(endpoint), supported_versions=SUPPORTED)

    async def get_info(_: InfoRequest) -> PluginInfo:
        return info

    calls: dict[Path, dict[str, Any]] = {
        endpoint: driver.methods,
        registration: {
            "/pluginregistration.Registration/GetInfo": UnaryMethod(InfoRequest.FromString, get_info),
            "/pluginregistration.Registration/NotifyRegistrationStatus": UnaryMethod(
                RegistrationStatus.FromString, _notified
            ),
        },
    }
    endpoint.parent.mkdir(parents=True, exist_ok=True)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    # The socket that the kubelet finds comes last, when all the rest is there.
    for socket, methods in calls.items():
        socket.unlink(missing_ok=True)
        GrpcServer(methods).listen(socket)
    await stop.wait()
    for socket in (registration, endpoint):
        socket.unlink(missing_ok=True)


def main(driver: type[Driver], description: str) -> None:
    """Run a driver as its command line says."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--name", default="dra.example.com")
    parser.add_argument("--instance", default="", help="another process of the same driver has another one")
    parser.add_argument("--kubelet", type=Path, default=Path("/var/lib/kubelet"))
    parser.add_argument("--cdi", type=Path, default=Path("/var/run/cdi"))
    given = parser.parse_args()
    given.cdi.mkdir(parents=True, exist_ok=True)
    asyncio.run(run(driver(given.name, given.cdi), given.kubelet, given.instance))


if __name__ == "__main__":
    main(Driver, "A DRA driver that gives each claim one device without hardware.")
