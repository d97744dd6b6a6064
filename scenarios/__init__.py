"""Stories about device plugins: the model, the runner, the backends that stories are played in, traces and verdicts."""

__all__: list[str] = []
