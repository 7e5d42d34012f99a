"""The command line. Each command parses its options, calls the library and prints."""
