"""Plugins that share a GPU by its memory: a scheduler writes into a pod's annotations which GPU it is to have.

One engine (`shared_gpu`, `pods`, `node`) and a module for each dialect: doslab's gpu-memory, Aliyun's gpushare,
volcano's gpu-memory and gpu-number, and its vgpu.
"""

__all__: list[str] = []
