"""One module for each program in the table; it runs in the environment of that program."""
