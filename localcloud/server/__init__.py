"""The API server: one ASGI application that answers for every Google endpoint."""
