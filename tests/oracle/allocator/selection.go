//go:build !before1_34

package main

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/dynamic-resource-allocation/cel"

	"simkubelet/oracle/wire"
)

// selection is one expression about one device.
type selection struct {
	Expression string              `json:"expression"`
	Driver     string              `json:"driver"`
	Device     *resourceapi.Device `json:"device"`
	// Sharing says whether devices can be shared.
	Sharing bool `json:"sharing"`
}

// answer gives the greatest cost that the API server expects, and what the scheduler gets at which cost.
func (s selection) answer() (wire.Answer, error) {
	env := environment.NewExpressions
	compiler := cel.GetCompiler(cel.Features{EnableConsumableCapacity: s.Sharing})
	compiled := compiler.CompileCELExpression(s.Expression, cel.Options{EnvType: &env})
	if compiled.Error != nil {
		return nil, compiled.Error
	}
	answer := wire.Answer{"estimate": compiled.MaxCost}
	if s.Device == nil {
		return answer, nil
	}
	device := cel.Device{Driver: s.Driver, Attributes: s.Device.Attributes, Capacity: s.Device.Capacity}
	if s.Sharing {
		device.AllowMultipleAllocations = s.Device.AllowMultipleAllocations
	}
	matches, details, err := compiled.DeviceMatches(context.Background(), device)
	if details != nil && details.ActualCost() != nil {
		answer["cost"] = *details.ActualCost()
	}
	if err != nil {
		answer["failure"] = err.Error()
	} else {
		answer["matches"] = matches
	}
	return answer, nil
}
