"""The machines of the executor `agent`: who has joined, how they are, and what they must clean up before they are used again."""
