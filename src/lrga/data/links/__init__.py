"""Link prediction: one graph, splits of its edges, negative pairs and random walks."""
