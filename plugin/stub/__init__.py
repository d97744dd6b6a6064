"""stub: a device plugin without hardware that follows commands, also to break the contract."""

__all__: list[str] = []
