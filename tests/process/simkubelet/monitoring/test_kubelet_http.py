from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_http_library_is_loaded_by_the_first_server_only():
    program = "import sys, simkubelet.monitoring.kubelet_http; sys.exit('aiohttp' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
