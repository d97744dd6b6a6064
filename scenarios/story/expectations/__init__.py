"""What a story expects of the node, its pods and its devices."""
