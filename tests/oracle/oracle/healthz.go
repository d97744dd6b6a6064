//go:build !before1_32

package main

import "simkubelet/oracle/wire"

// health is the check `device-plugin` of the kubelet's /healthz.
func (o *oracle) health(none) (wire.Answer, error) {
	checker := o.manager.GetHealthChecker()
	answer := wire.Answer{"name": checker.Name(), "healthy": true}
	if err := checker.Check(nil); err != nil {
		answer["healthy"], answer["reason"] = false, err.Error()
	}
	return answer, nil
}
