"""Tables, trees and pages in the terminal."""
