"""What kubelets up to 1.33 take for a message, and their words for the rest: those of the device manager of 1.31.14."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.apis import deviceplugin as api
from simkubelet.golang.message import UnreadableMessageError, read_message
from simkubelet.model.version import version
from simkubelet.registration.plugin_client import read_list

from .raw_plugin import RawPlugin

OLD = version("1.33")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xff\xff\xff", "unexpected EOF"),
        (b"\n\x05a", "unexpected EOF"),
        (b"\n\xff\xff\xff\xff\x0f", "unexpected EOF"),
        (b"\x22\x02\xff\xff", "unexpected EOF"),
        (b"\x2b\x30\x01", "unexpected EOF"),
        (b"\0", "proto: RegisterRequest: illegal tag 0 (wire type 0)"),
        (b"\xf8\xff\xff\xff\x7f\x01", "proto: RegisterRequest: illegal tag -1 (wire type 34359738360)"),
        (b"\x0c", "proto: RegisterRequest: wiretype end group for non-group"),
        (b"\x08\x01", "proto: wrong wireType = 0 for field Version"),
        (b"\x0b", "proto: wrong wireType = 3 for field Version"),
        (b"\x18\x01", "proto: wrong wireType = 0 for field ResourceName"),
        (b"\x2e\x01", "proto: illegal wireType 6"),
        (b"\x80" * 10 + b"\x01\x01", "proto: integer overflow"),
        (b"\x28" + b"\x80" * 10 + b"\x01", "proto: integer overflow"),
        (b"\n" + b"\xff" * 9 + b"\x01", "proto: negative length found during unmarshaling"),
    ],
)
def test_invalid_request_is_refused_with_gogo_s_text(content: bytes, words: str) -> None:
    with pytest.raises(UnreadableMessageError) as error:
        read_message(api.RegisterRequest, content, OLD)

    assert str(error.value) == words


@pytest.mark.parametrize(
    ("content", "request_"),
    [
        (b"", api.RegisterRequest()),
        (b"\n\x01\xff", api.RegisterRequest(version="\ufffd")),
        (b"\x2b\x34\n\x01a", api.RegisterRequest(version="a")),  # a group that another one ends
        (b"\x22\x02\x08\x02", api.RegisterRequest(options=api.DevicePluginOptions(pre_start_required=True))),
        (b"\x2a\x01\xff\x31" + b"\0" * 8, api.RegisterRequest()),
    ],
)
def test_request_that_is_one_to_gogo_is_read(content: bytes, request_: api.RegisterRequest) -> None:
    assert read_message(api.RegisterRequest, content, OLD) == request_


texts = st.text(max_size=3)
responses = st.builds(
    api.ContainerAllocateResponse,
    envs=st.dictionaries(texts, texts, max_size=3),
    annotations=st.dictionaries(texts, texts, max_size=2),
    mounts=st.lists(st.builds(api.Mount, container_path=texts, host_path=texts, read_only=st.booleans()), max_size=2),
    devices=st.lists(st.builds(api.DeviceSpec, container_path=texts, permissions=texts), max_size=2),
    cdi_devices=st.lists(st.builds(api.CDIDevice, name=texts), max_size=2),
)


@given(st.lists(responses, max_size=2))
def test_message_in_order_is_the_same_to_both(containers: list[api.ContainerAllocateResponse]) -> None:
    response = api.AllocateResponse(container_responses=containers)

    assert read_message(api.AllocateResponse, response.SerializeToString(), OLD) == response


@given(st.binary(max_size=40))
def test_any_bytes_are_a_message_or_an_error(content: bytes) -> None:
    for kind in (api.AllocateResponse, api.ListAndWatchResponse, api.DevicePluginOptions):
        with suppress(UnreadableMessageError):
            assert isinstance(read_message(kind, content, OLD), kind)


def test_list_with_a_field_of_a_wrong_type_is_none_to_gogo_alone() -> None:
    content = b"\n\x02\x08\x01"

    assert len(read_list(content, version("1.34"))) == 1
    with pytest.raises(UnreadableMessageError, match="proto: wrong wireType = 0 for field ID"):
        read_list(content, OLD)


@pytest.mark.parametrize(("minor", "status"), [("1.33", (1, 1)), ("1.34", (0, 0))])
async def test_id_that_is_not_utf8_is_a_device_up_to_1_33(make_node: Any, minor: str, status: tuple[int, int]) -> None:
    node = await make_node(minor)
    plugin = RawPlugin(node.folder, {"ListAndWatch": b"\n\x0d\n\x02\xc3\x28\x12\x07Healthy"})
    node.plugins.append(plugin)
    await plugin.serve()

    await plugin.register()
    await node.until(lambda: node.of("devices-listed") or node.of("plugin-disconnected"))
    await node.tick()

    assert node.status() == status
