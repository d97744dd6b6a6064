"""The small driver, with faults: it answers otherwise while a file of the node says so.

`/etc/dra-faults.json` is read at each call, so that a step of a story can write it:

- ``prepare``, ``unprepare``: what is wrong with the answers to the call: ``{"error": TEXT}`` refuses each claim,
  ``"skipped"`` leaves them out, ``"foreign"`` answers for a claim that nobody asked for
- ``health``: device -> ``HEALTHY``, ``UNHEALTHY`` or ``UNKNOWN``, for the stream of health
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from scenarios.catalog.dra.driver import Driver, main
from simkubelet.apis import dra, drahealth
from simkubelet.apis.grpcwire.served_call import StreamMethod

FAULTS: Final = Path("/etc/dra-faults.json")
LOOK_S: Final = 0.05

Answers = TypeVar("Answers", dra.NodePrepareResourcesResponse, dra.NodeUnprepareResourcesResponse)


def faults() -> Mapping[str, Any]:
    """What is wrong now."""
    try:
        found: Mapping[str, Any] = json.loads(FAULTS.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return found


class FaultyDriver(Driver):
    """A driver whose answers a file changes."""

    @property
    def methods(self) -> dict[str, Any]:
        watch = f"/{drahealth.HEALTH_SERVICE}/NodeWatchResources"
        request = drahealth.NodeWatchResourcesRequest.FromString
        return {**super().methods, watch: StreamMethod(request, self.watch_health)}

    async def prepare(self, request: dra.NodePrepareResourcesRequest) -> dra.NodePrepareResourcesResponse:
        return _faulty(await super().prepare(request), faults().get("prepare"))

    async def unprepare(self, request: dra.NodeUnprepareResourcesRequest) -> dra.NodeUnprepareResourcesResponse:
        return _faulty(await super().unprepare(request), faults().get("unprepare"))

    async def watch_health(
        self, request: drahealth.NodeWatchResourcesRequest
    ) -> AsyncGenerator[drahealth.NodeWatchResourcesResponse, None]:
        """Report each change of the file."""
        reported: Mapping[str, str] = {}
        while True:
            health = faults().get("health", {})
            if health != reported:
                reported = health
                yield drahealth.NodeWatchResourcesResponse(
                    devices=[
                        drahealth.DeviceHealth(
                            device=drahealth.DeviceIdentifier(pool_name="node", device_name=device), health=word
                        )
                        for device, word in health.items()
                    ]
                )
            await asyncio.sleep(LOOK_S)


def _faulty(answers: Answers, fault: Any) -> Answers:
    match fault:
        case {"error": text}:
            for answer in answers.claims.values():
                answer.Clear()
                answer.error = text
        case "skipped":
            answers.claims.clear()
        case "foreign":
            answers.claims["00000000-0000-0000-0000-000000000000"].SetInParent()
    return answers


if __name__ == "__main__":
    main(FaultyDriver, "A DRA driver without hardware that answers as /etc/dra-faults.json says.")
