"""Pages that the server writes itself, for people who come by a link."""
