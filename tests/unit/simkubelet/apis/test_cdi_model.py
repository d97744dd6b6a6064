"""Fed in: CDI specifications as a plugin makes them; observed: their JSON, and what reading it gives."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.apis.cdi import CdiDevice, CdiSpec, ContainerEdits, DeviceNode, Hook, IntelRdt, Mount
from simkubelet.cdi import SpecError, parse_spec

_VERSIONS = ("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0")
_PATHS = st.text("/abc", min_size=1)
_WORDS = st.text("abc<&>é")
_IDS = st.integers(0, 2**32 - 1)
_ENV = st.lists(st.sampled_from(["A=1", "B="])).map(tuple)
_NODES = st.builds(
    DeviceNode,
    path=_PATHS,
    host_path=_WORDS,
    type=st.sampled_from(["", "c"]),
    major=st.integers(0, 9),
    minor=st.integers(0, 9),
    file_mode=st.none() | st.just(0) | st.just(0o666),
    permissions=st.sampled_from(["", "rwm"]),
    uid=st.none() | _IDS,
    gid=st.none() | _IDS,
)
_MOUNTS = st.builds(Mount, _PATHS, _PATHS, st.lists(_WORDS).map(tuple), _WORDS)
_HOOKS = st.builds(Hook, st.just("poststop"), _PATHS, st.lists(_WORDS).map(tuple), _ENV, st.none() | st.integers(0, 9))
_RDTS = st.none() | st.builds(IntelRdt, st.text("abc"), _WORDS, _WORDS, st.booleans(), st.booleans())
_EDITS = st.builds(
    ContainerEdits,
    _ENV,
    st.lists(_NODES, max_size=2).map(tuple),
    st.lists(_HOOKS, max_size=2).map(tuple),
    st.lists(_MOUNTS, max_size=2).map(tuple),
    _RDTS,
    st.lists(_IDS, max_size=2).map(tuple),
)
_ANNOTATIONS = st.dictionaries(st.sampled_from(["k", "L"]), _WORDS)
_DEVICES = st.builds(
    CdiDevice, st.sampled_from(["a", "0"]), _ANNOTATIONS, _EDITS.filter(lambda edits: not edits.is_empty)
)
_SPECS = st.builds(
    CdiSpec,
    kind=st.sampled_from(["vendor.com/gpu", "vendor.com/g.pu"]),
    annotations=_ANNOTATIONS,
    devices=_DEVICES.map(lambda device: (device,)),
    container_edits=_EDITS,
)


@given(_SPECS)
def test_spec_is_read_as_it_was_written(spec: CdiSpec) -> None:
    needed = spec.needed_version()
    versioned = replace(spec, cdi_version=needed)

    assert parse_spec(json.dumps(versioned.to_json())) == versioned
    for older in _VERSIONS[: _VERSIONS.index(needed)]:
        with pytest.raises(SpecError, match=f"must be at least v{needed}"):
            parse_spec(json.dumps(replace(spec, cdi_version=older).to_json()))


def test_only_empty_fields_that_go_writes_are_written() -> None:
    edits = ContainerEdits(device_nodes=(DeviceNode(uid=0),), hooks=(Hook(),), mounts=(Mount(),), intel_rdt=IntelRdt())

    assert CdiSpec(devices=(CdiDevice(container_edits=edits),)).to_json() == {
        "cdiVersion": "",
        "kind": "",
        "devices": [
            {
                "name": "",
                "containerEdits": {
                    "deviceNodes": [{"path": "", "uid": 0}],
                    "hooks": [{"hookName": "", "path": ""}],
                    "mounts": [{"hostPath": "", "containerPath": ""}],
                    "intelRdt": {},
                },
            }
        ],
        "containerEdits": {},
    }


@pytest.mark.parametrize("part", [CdiSpec, CdiDevice, ContainerEdits, DeviceNode, Hook, Mount])
def test_fields_that_are_always_written_exist(part: type) -> None:
    assert part.always_written <= {field.name for field in fields(part)}
