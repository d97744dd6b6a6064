"""The gopher plugin: ``lixueduan.com/gopher``, one device for each file below a directory."""

__all__: list[str] = []
