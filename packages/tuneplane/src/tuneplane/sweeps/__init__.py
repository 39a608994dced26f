"""What a sweep varies: the space of its variants, and what is wrong with it. The same code on the client and on the console."""
