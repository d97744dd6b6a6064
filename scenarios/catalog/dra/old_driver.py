"""The small driver as one that was built for Kubernetes 1.32: it publishes its device as ``resource.k8s.io/v1beta1``.

It does so each time that a kubelet has taken its registration, as a kubelet that starts deletes the ResourceSlices of
its node. An API server that does not serve this version answers that there is no such resource; the driver writes so
into its log, and goes on without devices.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from simkubelet.apis.pluginregistration import RegistrationStatus, RegistrationStatusResponse
from simkubelet.remote import ApiClient, ApiError, read_kubeconfig

if TYPE_CHECKING:
    from scenarios.catalog.dra.driver import Driver, main
else:
    from driver import Driver, main

SLICES: Final = "/apis/resource.k8s.io/v1beta1/resourceslices"


class OldDriver(Driver):
    """A driver that talks to the API server of ``KUBECONFIG``."""

    async def notified(self, status: RegistrationStatus) -> RegistrationStatusResponse:
        if status.plugin_registered:
            await self._publish(os.environ["NODE_NAME"])
        return await super().notified(status)

    async def _publish(self, node: str) -> None:
        found = {
            "apiVersion": "resource.k8s.io/v1beta1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-{self.name}"},
            "spec": {
                "driver": self.name,
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "device-0", "basic": {}}],
            },
        }
        async with ApiClient(read_kubeconfig(Path(os.environ["KUBECONFIG"]))) as client:
            try:
                await client.call("POST", SLICES, found)
            except ApiError as error:
                print(f"not published: {error}", flush=True)


if __name__ == "__main__":
    main(OldDriver, "A DRA driver without hardware that publishes its device as resource.k8s.io/v1beta1.")
