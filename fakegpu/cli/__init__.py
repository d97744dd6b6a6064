"""The command line: a module for each group of commands, loaded when one of them is asked for."""
