"""The simulated kubelet's device side, driven line by line: JSON commands in, JSON answers out.

``python -m simkubelet.stdio --dir DIR`` is how a program in any language can drive the simulated kubelet;
docs/line-protocol.md is its reference. The same protocol is spoken by a program around the real device manager, so that
both can be played the same commands and their answers compared.

`__main__` reads the command line, `lines` the lines, `request` the fields of a command, `session` carries commands out
one after the other, `*_commands` are what can be asked. They work on a `node`, which has a device manager, or on a
`dra_node`, which has a DRA manager.
"""
