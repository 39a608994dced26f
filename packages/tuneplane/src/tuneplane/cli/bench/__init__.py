"""`tp eval` and `tp bench …`: measure models, show and compare what came out."""
