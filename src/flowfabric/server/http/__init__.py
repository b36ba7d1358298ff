"""HTTP below the routes: connections, bounds, decoding, errors."""
