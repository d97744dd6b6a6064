// With a file of assembly in its package, a function without a body is taken: those that go:linkname names.
