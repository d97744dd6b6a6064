"""gRPC's library is loaded for those who ask for a stub or a servicer, quietly, and for nobody else."""

from __future__ import annotations

import subprocess
import sys

import pytest

from simkubelet.apis import deviceplugin, pluginregistration, podresources, podresources_v1alpha1

APIS = (deviceplugin, pluginregistration, podresources, podresources_v1alpha1)


def test_kubelet_needs_no_grpc_library_and_a_stub_does() -> None:
    program = (
        "import os, sys, simkubelet.kubelet.kubelet, simkubelet.stdio.node;"
        "from simkubelet.apis import deviceplugin;"
        "before = 'grpc' in sys.modules; deviceplugin.DevicePluginStub;"
        "print(before, 'grpc' in sys.modules, 'GRPC_VERBOSITY' in os.environ)"
    )

    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env={})

    assert said.stdout == "False True False\n"


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.__name__.rpartition(".")[2])
def test_api_has_all_that_it_exports_and_nothing_else(api) -> None:
    assert [name for name in api.__all__ if getattr(api, name, None) is None] == []
    with pytest.raises(AttributeError, match=f"module '{api.__name__}' has no attribute 'OtherStub'"):
        _ = api.OtherStub
