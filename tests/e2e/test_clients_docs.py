"""The commands on the page about clusters, run as they stand there."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.live_cluster import go_client, live_cluster

pytestmark = pytest.mark.clients

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "cluster.md"


def test_every_command_of_the_page_works() -> None:
    start, *blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    program, up, *options = start.split()
    assert (program, up) == ("simkubelet", "up")
    with live_cluster(" ".join(options)) as cluster:
        programs = cluster.scratch / "bin"
        programs.mkdir()
        (programs / "kubectl").symlink_to(go_client("SIMKUBELET_KUBECTL"))
        (programs / "simkubelet").write_text(f'#!/bin/sh\nexec {sys.executable} -m simkubelet "$@"\n')
        (programs / "simkubelet").chmod(0o755)
        bash = shutil.which("bash")
        assert bash is not None

        said = cluster.run(bash, "-eu", "-o", "pipefail", "-c", f'PATH="{programs}:$PATH"\n' + "\n".join(blocks))

    assert "pod/train condition met" in said
    assert "pod/digger condition met" in said
    assert "node/node-1 patched" in said
    assert "node-2 was rebooted" in said
    assert 'daemonset.apps "gophers" deleted' in said
