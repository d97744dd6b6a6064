from __future__ import annotations

import subprocess
import sys

import pytest

from simkubelet.apis import deviceplugin, pluginregistration, podresources, podresources_v1alpha1
from tests.support.patience import LIMIT_S

APIS = (deviceplugin, pluginregistration, podresources, podresources_v1alpha1)

_PROGRAM = """
from simkubelet.apis import deviceplugin as api

answer = api.ContainerAllocateResponse(envs={"KEY": "value"})
answer.mounts.add(container_path="/in", host_path="/on")
assert answer.SerializeToString() == b"\\n\\x0c\\n\\x03KEY\\x12\\x05value\\x12\\n\\n\\x03/in\\x12\\x03/on"
assert api.ContainerAllocateResponse.FromString(answer.SerializeToString()) == answer
"""


@pytest.mark.parametrize("before", ["", "import sys; sys.modules['google._upb'] = None"], ids=["in C", "in Python"])
def test_messages_work_with_each_implementation_of_protobuf(before: str) -> None:
    subprocess.run([sys.executable, "-c", f"{before}\n{_PROGRAM}"], check=True, timeout=LIMIT_S)


def test_messages_leave_protobufs_implementation_in_python_unloaded() -> None:
    program = f"{_PROGRAM}\nimport sys\nassert 'google.protobuf.internal.python_message' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=LIMIT_S)


def test_neither_kubelet_nor_plugins_load_a_grpc_library() -> None:
    program = (
        "import sys, simkubelet.kubelet.kubelet, simkubelet.stdio.node, plugin.stub.stub, plugin.framework.lifecycle,"
        "scenarios.backends.sim.backend; assert 'grpc' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=LIMIT_S)


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.__name__.rpartition(".")[2])
def test_api_has_all_that_it_exports(api) -> None:
    assert api.__all__
    assert [name for name in api.__all__ if getattr(api, name, None) is None] == []
