"""The executor `agent`: many machines, each with a daemon `tuneplane-node`, and one console or several that call them."""
