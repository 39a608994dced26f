"""One module per framework: (config, topology) to command, environment and files. Standard library only."""
