"""The Iluvatar plugin: ``iluvatar.com/gpu``, one device for each board, or for each chip, or several for each."""

__all__: list[str] = []
