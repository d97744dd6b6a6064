"""The AMD plugin: ``amd.com/gpu``, or resources named after partition modes."""

__all__: list[str] = []
