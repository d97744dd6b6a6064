//go:build !before1_34 && !since1_35

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	_ "unsafe" // for the queue's own flushes

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	testingclock "k8s.io/utils/clock/testing"

	"simkubelet/oracle/wire"
)

// began is the time at a scheduler's start.
var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// tryLimit is how long a binding may take, which goes on in a goroutine of its own.
const tryLimit = 5 * time.Second

type oracle struct {
	cancel    context.CancelFunc
	ctx       context.Context
	clock     *testingclock.FakeClock
	informers *handedInformers
	scheduler *scheduler.Scheduler
	queue     *queue.PriorityQueue
	ms        int64
	version   int
	attempt   *attempt
}

type nothing struct{}

func (o *oracle) start(nothing) (wire.Answer, error) {
	if o.cancel != nil {
		o.cancel()
	}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	o.clock = testingclock.NewFakeClock(began)
	o.ms, o.version = 0, 0
	client := fake.NewSimpleClientset()
	o.attempt = newAttempt()
	client.PrependReactor("*", "*", o.react)
	o.informers = newHandedInformers(informers.NewSharedInformerFactory(client, 0))
	made, err := scheduler.New(o.ctx, client, o.informers, nil, profile.RecorderFactory(o.recorder), scheduler.WithClock(o.clock))
	if err != nil {
		return nil, err
	}
	o.scheduler = made
	o.queue = made.SchedulingQueue.(*queue.PriorityQueue)
	schedule, fail := made.SchedulePod, made.FailureHandler
	made.SchedulePod = func(ctx context.Context, f framework.Framework, state fwk.CycleState, pod *v1.Pod) (scheduler.ScheduleResult, error) {
		result, err := schedule(ctx, f, state, pod)
		if err == nil && result.FeasibleNodes > 1 {
			result.SuggestedHost, err = o.rank(ctx, f, pod)
		}
		return result, err
	}
	made.FailureHandler = func(ctx context.Context, f framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nominated *framework.NominatingInfo, start time.Time) {
		fail(ctx, f, pod, status, nominated, start)
		o.attempt.finish()
	}
	return nil, nil
}

// rank notes the score of each node that a pod fits, and returns the first by name of the best.
func (o *oracle) rank(ctx context.Context, f framework.Framework, pod *v1.Pod) (string, error) {
	state := framework.NewCycleState()
	if _, status, _ := f.RunPreFilterPlugins(ctx, state, pod); !status.IsSuccess() {
		return "", status.AsError()
	}
	all, err := f.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return "", err
	}
	var feasible []fwk.NodeInfo
	for _, node := range all {
		if f.RunFilterPluginsWithNominatedPods(ctx, state, pod, node).IsSuccess() {
			feasible = append(feasible, node)
		}
	}
	if status := f.RunPreScorePlugins(ctx, state, pod, feasible); !status.IsSuccess() {
		return "", status.AsError()
	}
	scores, status := f.RunScorePlugins(ctx, state, pod, feasible)
	if !status.IsSuccess() {
		return "", status.AsError()
	}
	best := scores[0]
	for _, each := range scores {
		o.attempt.scores[each.Name] = each.TotalScore
		if each.TotalScore > best.TotalScore || each.TotalScore == best.TotalScore && each.Name < best.Name {
			best = each
		}
	}
	return best.Name, nil
}

type nodeArguments struct {
	Node v1.Node `json:"node"`
}

func (o *oracle) applyNode(a nodeArguments) (wire.Answer, error) {
	o.versioned(&a.Node.ObjectMeta)
	return nil, o.informers.nodes.put(&a.Node)
}

type podArguments struct {
	Pod v1.Pod `json:"pod"`
}

func (o *oracle) applyPod(a podArguments) (wire.Answer, error) {
	o.versioned(&a.Pod.ObjectMeta)
	return nil, o.informers.pods.put(&a.Pod)
}

func (o *oracle) versioned(meta *metav1.ObjectMeta) {
	o.version++
	meta.ResourceVersion = fmt.Sprint(o.version)
}

type nameArguments struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func (o *oracle) deleteNode(a nameArguments) (wire.Answer, error) {
	return nil, o.informers.nodes.drop(a.Name)
}

func (o *oracle) deletePod(a nameArguments) (wire.Answer, error) {
	return nil, o.informers.pods.drop(a.Namespace + "/" + a.Name)
}

type advanceArguments struct {
	MS int64 `json:"ms"`
}

//go:linkname flushBackoff k8s.io/kubernetes/pkg/scheduler/backend/queue.(*PriorityQueue).flushBackoffQCompleted
func flushBackoff(q *queue.PriorityQueue, logger klog.Logger)

//go:linkname flushUnschedulable k8s.io/kubernetes/pkg/scheduler/backend/queue.(*PriorityQueue).flushUnschedulablePodsLeftover
func flushUnschedulable(q *queue.PriorityQueue, logger klog.Logger)

// advance lets time pass, and flushes the queue as often as it flushes itself.
func (o *oracle) advance(a advanceArguments) (wire.Answer, error) {
	for end := o.ms + a.MS; o.ms < end; {
		next := min(end, o.ms/1000*1000+1000)
		o.clock.Step(time.Duration(next-o.ms) * time.Millisecond)
		o.ms = next
		if o.ms%1000 == 0 {
			flushBackoff(o.queue, klog.Background())
		}
		if o.ms%30_000 == 0 {
			flushUnschedulable(o.queue, klog.Background())
		}
	}
	return nil, nil
}

func (o *oracle) queues(nothing) (wire.Answer, error) {
	return wire.Answer{
		"active":        names(o.queue.PodsInActiveQ()),
		"backoff":       names(o.queue.PodsInBackoffQ()),
		"unschedulable": names(o.queue.UnschedulablePods()),
	}, nil
}

func names(pods []*v1.Pod) []string {
	found := []string{}
	for _, pod := range pods {
		found = append(found, pod.Name)
	}
	slices.Sort(found)
	return found
}

// try plays one scheduling cycle; it answers an empty object where no pod waits for one.
func (o *oracle) try(nothing) (wire.Answer, error) {
	if len(o.queue.PodsInActiveQ()) == 0 && !slices.ContainsFunc(o.queue.PodsInBackoffQ(), o.isRefused) {
		return nil, nil
	}
	o.attempt = newAttempt()
	o.scheduler.ScheduleOne(o.ctx)
	select {
	case <-o.attempt.done:
	case <-time.After(tryLimit):
		return nil, errors.New("the try does not end")
	}
	return o.attempt.answer(), nil
}

// isRefused is whether a pod in back-off was refused by plugins: one that met an error is not tried before its time.
func (o *oracle) isRefused(pod *v1.Pod) bool {
	info, known := o.queue.GetPod(pod.Name, pod.Namespace)
	return known && info.UnschedulablePlugins.Len()+info.PendingPlugins.Len() > 0
}
