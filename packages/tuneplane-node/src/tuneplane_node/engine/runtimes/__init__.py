"""How a container is run: by Docker, by Podman, or as a plain process group."""
