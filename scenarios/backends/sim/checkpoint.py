"""Changes a simulated kubelet's checkpoint file behind its back."""

from __future__ import annotations

from pathlib import Path

from simkubelet.devices.checkpoint import CHECKPOINT_NAME
from simkubelet.model.errors import InputError

from ...story.verbs.node_action import CheckpointState
from ..world.checkpoint_text import changed_checkpoint


def change_checkpoint(plugin_folder: Path, to: CheckpointState) -> None:
    """Change the checkpoint of a plugin folder.

    Raises:
        InputError: There is none.
    """
    file = plugin_folder / CHECKPOINT_NAME
    try:
        text = file.read_text()
    except FileNotFoundError:
        raise InputError(f"changeCheckpoint: the kubelet has written none yet ({file})") from None
    if (changed := changed_checkpoint(text, to)) is None:
        file.unlink()
    else:
        file.write_text(changed)
