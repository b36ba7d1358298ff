"""HTML pages for people who follow a link."""
