"""Everything a worker sends for its attempts: ends, progress, frames."""
