"""What the simulator and clusters share: nodes, their hardware and their plugin processes."""
