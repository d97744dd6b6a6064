"""gRPC's library is loaded for those who ask for a stub or a servicer, quietly, and for nobody else."""

from __future__ import annotations

import subprocess
import sys


def test_kubelet_needs_no_grpc_library_and_a_stub_does() -> None:
    program = (
        "import os, sys, simkubelet.kubelet.kubelet, simkubelet.stdio.node;"
        "from simkubelet.apis import deviceplugin;"
        "before = 'grpc' in sys.modules; deviceplugin.DevicePluginStub;"
        "print(before, 'grpc' in sys.modules, 'GRPC_VERBOSITY' in os.environ)"
    )

    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env={})

    assert said.stdout == "False True False\n"
