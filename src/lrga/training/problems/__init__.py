"""What is trained: graphs, links, walks."""
