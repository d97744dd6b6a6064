// Pins Mellanox' plugin of shared RDMA devices, which is built in a copy of its folder: tools/build/rdma_plugin.py.
module simkubelet/rdma

go 1.24

require github.com/Mellanox/k8s-rdma-shared-dev-plugin v1.5.3
