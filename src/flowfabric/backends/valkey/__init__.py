"""The backend whose truth is a library of atomic Valkey functions."""
