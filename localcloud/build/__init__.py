"""Cloud Build and the images it makes: directories by digest instead of layers, run with the Python of this machine."""
