//go:build !before1_34

package main

import (
	"encoding/json"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"simkubelet/oracle/wire"
)

func (o *oracle) healthHandlers() map[string]wire.Handler {
	return map[string]wire.Handler{
		"allocated_status": running(o, o.allocatedStatus),
		"updates":          running(o, o.updates),
	}
}

type statusArguments struct {
	Pod    v1.Pod       `json:"pod"`
	Status v1.PodStatus `json:"status"`
}

func (o *oracle) allocatedStatus(a statusArguments) (wire.Answer, error) {
	o.updateStatus(&a.Pod, &a.Status)
	text, err := json.Marshal(a.Status)
	return wire.Answer{"status": json.RawMessage(text)}, err
}

// updates takes the next list of pods whose devices changed; null where none comes in time.
func (o *oracle) updates(a timeout) (wire.Answer, error) {
	select {
	case update := <-o.manager.Updates():
		slices.Sort(update.PodUIDs)
		return wire.Answer{"pod_uids": update.PodUIDs}, nil
	case <-time.After(a.duration()):
		return wire.Answer{"pod_uids": nil}, nil
	}
}
