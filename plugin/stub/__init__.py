"""stub: a device plugin without hardware that does what it is told, good manners or not."""

__all__: list[str] = []
