"""What the brain and the hand agree on: messages, runs, embeddings, tools, errors, and how each travels as bytes."""
