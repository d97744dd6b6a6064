//go:build !before1_34 && !since1_35

package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"simkubelet/oracle/wire"
)

// attempt is what one scheduling cycle would have written.
type attempt struct {
	mu         sync.Mutex
	done       chan struct{}
	end        sync.Once
	bindings   []wire.Answer
	conditions []wire.Answer
	nominated  map[string]string
	deleted    []string
	events     []wire.Answer
	scores     map[string]int64
}

func newAttempt() *attempt {
	return &attempt{
		done: make(chan struct{}), bindings: []wire.Answer{}, conditions: []wire.Answer{}, nominated: map[string]string{},
		deleted: []string{}, events: []wire.Answer{}, scores: map[string]int64{},
	}
}

func (a *attempt) finish() { a.end.Do(func() { close(a.done) }) }

func (a *attempt) answer() wire.Answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	slices.Sort(a.deleted)
	for _, list := range [][]wire.Answer{a.conditions, a.events} {
		slices.SortFunc(list, func(x, y wire.Answer) int { return strings.Compare(fmt.Sprint(x), fmt.Sprint(y)) })
	}
	return wire.Answer{
		"bindings": a.bindings, "conditions": a.conditions, "nominated": a.nominated, "deleted": a.deleted,
		"events": a.events, "scores": a.scores,
	}
}

// patch notes what a patch makes of a pod's status.
func (a *attempt) patch(pod *v1.Pod, patch []byte) error {
	before, err := json.Marshal(pod)
	if err != nil {
		return err
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, v1.Pod{})
	if err != nil {
		return err
	}
	var patched v1.Pod
	if err := json.Unmarshal(after, &patched); err != nil {
		return err
	}
	for _, each := range patched.Status.Conditions {
		// What a condition says; since when is the clock's affair, which is another one than the test's.
		known := func(one v1.PodCondition) bool {
			return one.Type == each.Type && one.Status == each.Status && one.Reason == each.Reason && one.Message == each.Message
		}
		if !slices.ContainsFunc(pod.Status.Conditions, known) {
			a.conditions = append(a.conditions, wire.Answer{
				"pod": pod.Name, "type": each.Type, "status": each.Status, "reason": each.Reason, "message": each.Message,
			})
		}
	}
	if patched.Status.NominatedNodeName != pod.Status.NominatedNodeName {
		a.nominated[pod.Name] = patched.Status.NominatedNodeName
	}
	return nil
}

// react notes what the scheduler asks of the API server, which does nothing about it.
func (o *oracle) react(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.GetResource().Resource != "pods" {
		return false, nil, nil
	}
	a := o.attempt
	a.mu.Lock()
	defer a.mu.Unlock()
	switch act := action.(type) {
	case clienttesting.PatchAction:
		pod, err := o.informers.Core().V1().Pods().Lister().Pods(act.GetNamespace()).Get(act.GetName())
		if err != nil {
			return true, nil, err
		}
		return true, pod, a.patch(pod, act.GetPatch())
	case clienttesting.DeleteAction:
		a.deleted = append(a.deleted, act.GetName())
		return true, nil, nil
	case clienttesting.CreateAction:
		if binding, is := act.GetObject().(*v1.Binding); is {
			a.bindings = append(a.bindings, wire.Answer{"pod": binding.Name, "node": binding.Target.Name})
			return true, binding, nil
		}
	}
	return false, nil, nil
}

func (o *oracle) recorder(string) events.EventRecorder { return recorder{o} }

// recorder notes the Events of the cycle under way.
type recorder struct{ oracle *oracle }

func (r recorder) Eventf(regarding, _ runtime.Object, type_, reason, _, note string, args ...any) {
	a := r.oracle.attempt
	pod := regarding.(*v1.Pod)
	if len(args) > 0 {
		note = fmt.Sprintf(note, args...)
	}
	a.mu.Lock()
	a.events = append(a.events, wire.Answer{"pod": pod.Name, "type": type_, "reason": reason, "message": note})
	a.mu.Unlock()
	if reason == "Scheduled" || strings.HasPrefix(note, "skip schedule deleting pod") {
		a.finish()
	}
}

func (r recorder) WithLogger(klog.Logger) events.EventRecorderLogger { return r }
