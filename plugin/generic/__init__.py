"""The generic plugin: a resource that a YAML file describes, for device files that nobody else serves."""

__all__: list[str] = []
