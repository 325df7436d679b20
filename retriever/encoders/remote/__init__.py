"""Encoders behind an endpoint (`/v1/embeddings`): `encoder`, its requests in `calls`, what is known in `served`."""
