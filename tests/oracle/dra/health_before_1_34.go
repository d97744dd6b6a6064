//go:build before1_34 && !before1_32

package main

import "simkubelet/oracle/wire"

// healthHandlers are none: the managers of these versions know nothing of the health of devices.
func (o *oracle) healthHandlers() map[string]wire.Handler { return nil }
