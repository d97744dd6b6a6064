"""The two calls of a kubelet to the plugin of a driver, and what of its answer is refused.

Source: pkg/kubelet/cm/dra/manager.go, ``prepareResources``, ``unprepareResources`` (kubernetes v1.33.13, v1.34.4).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from google.protobuf.message import Message

from ..apis.dra import (
    Claim,
    Device,
    NodePrepareResourcesRequest,
    NodePrepareResourcesResponse,
    NodeUnprepareResourcesRequest,
    NodeUnprepareResourcesResponse,
)
from ..apis.grpcwire.client import RpcError
from .claim_info import ClaimInfo, PreparedDevice
from .error_texts import ErrorTexts
from .plugins import DriverPlugin
from .pod_claims import DynamicResourcesError

__all__ = ["DriverCalls"]

M = TypeVar("M", bound=Message)


class _Answer(Protocol):
    """What a driver answers about one claim."""

    error: str


class DriverCalls:
    """Makes them with the errors of a kubelet."""

    def __init__(self, texts: ErrorTexts) -> None:
        self._texts = texts

    async def prepare(
        self, plugin: DriverPlugin, infos: Sequence[ClaimInfo]
    ) -> AsyncGenerator[tuple[ClaimInfo, Iterable[PreparedDevice]], None]:
        """Have claims prepared: each that the driver answers for, with its devices.

        Raises:
            DynamicResourcesError: it failed, or its answer is refused; once the answers before have been taken.
        """
        request = NodePrepareResourcesRequest(claims=_claims(infos))
        response = await self._ask(plugin, "NodePrepareResources", request, NodePrepareResourcesResponse)
        by_uid = {info.uid: info for info in infos}
        for uid, answer in response.claims.items():
            self._check_answer("NodePrepareResources", uid, answer, by_uid)
            yield by_uid[uid], map(_prepared, answer.devices)
        self._check_complete("NodePrepareResources", infos, response.claims)

    async def unprepare(self, plugin: DriverPlugin, infos: Sequence[ClaimInfo]) -> None:
        """Have claims unprepared; raises as `prepare`."""
        request = NodeUnprepareResourcesRequest(claims=_claims(infos))
        response = await self._ask(plugin, "NodeUnprepareResources", request, NodeUnprepareResourcesResponse)
        by_uid = {info.uid: info for info in infos}
        for uid, answer in response.claims.items():
            self._check_answer("NodeUnprepareResources", uid, answer, by_uid)
        self._check_complete("NodeUnprepareResources", infos, response.claims)

    async def _ask(self, plugin: DriverPlugin, method: str, request: Message, answer: type[M]) -> M:
        try:
            return await plugin.call(method, request, answer)
        except RpcError as error:
            raise DynamicResourcesError(self._texts.call.format(method=method, error=error)) from None

    def _check_answer(self, method: str, uid: str, answer: _Answer, asked: Mapping[str, ClaimInfo]) -> None:
        if uid not in asked:
            raise DynamicResourcesError(f"{method} returned result for unknown claim UID {uid}")
        if answer.error:
            info, error = asked[uid], answer.error
            text = self._texts.refused.format(method=method, namespace=info.namespace, claim=info.name, error=error)
            raise DynamicResourcesError(text)

    def _check_complete(self, method: str, asked: Sequence[ClaimInfo], answered: Collection[str]) -> None:
        if len(asked) != len(answered):
            raise DynamicResourcesError(self._texts.skipped.format(method=method, count=len(asked) - len(answered)))


def _claims(infos: Iterable[ClaimInfo]) -> list[Claim]:
    return [Claim(namespace=info.namespace, uid=info.uid, name=info.name) for info in infos]


def _prepared(device: Device) -> PreparedDevice:
    return PreparedDevice(
        pool=device.pool_name,
        name=device.device_name,
        # A list of protobuf that is empty is nil in Go.
        requests=tuple(device.request_names) or None,
        cdi_ids=tuple(device.cdi_device_ids) or None,
        share_id=device.share_id if device.HasField("share_id") else None,
    )
