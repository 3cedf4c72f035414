"""Search over titles and messages: folding and n-grams, the index rows, and the query."""
