"""Dynamic Resource Allocation on the node: the kubelet's DRA manager, from the registration of drivers to checkpoints.

`manager` prepares and unprepares the claims of pods; `plugins` are the drivers that it calls, `slice_wipes` what
happens to the ResourceSlices of those that are gone, `health` what they report of their devices. `claim_info` is what
is known of a claim, `claim_cache` has all of them, and `container_claims` is what containers get of it. `checkpoint`
is how it survives a restart, with the claims as texts (`claim_text`) and as values of JSON (`claim_values`).

`error_texts` has what it says of failures, `driver_calls` the calls themselves.

It behaves as Kubernetes 1.32 and newer. Not here: claims of extended resources, metrics.
"""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from .checkpoint import CHECKPOINT_NAME, BadCheckpointError, decode
    from .claim_info import ClaimInfo
    from .container_claims import claimed_cdi_devices
else:
    from .._internal import lazy

    __getattr__, __dir__ = lazy.exports(
        __name__,
        {
            ".checkpoint": ("CHECKPOINT_NAME", "BadCheckpointError", "decode"),
            ".claim_info": ("ClaimInfo",),
            ".container_claims": ("claimed_cdi_devices",),
        },
    )

__all__ = ["CHECKPOINT_NAME", "BadCheckpointError", "ClaimInfo", "claimed_cdi_devices", "decode"]
